//! What `bindgen!` makes of `wit/`, and nothing else.

wasmtime::component::bindgen!({
    world: "enricher",
    path: "../../wit",
    exports: { default: async },
    additional_derives: [PartialEq],
});
