//! What `bindgen!` makes of `wit/`, and nothing else. What both worlds import is made once, with the first.

wasmtime::component::bindgen!({
    world: "enricher",
    path: "../../wit",
    exports: { default: async },
    additional_derives: [PartialEq],
});

/// The world `sink`.
pub(crate) mod sink {
    wasmtime::component::bindgen!({
        world: "sink",
        path: "../../wit",
        imports: {
            "taskscope:plugin/http": async,
            "taskscope:plugin/storage": async,
        },
        exports: { default: async },
        additional_derives: [PartialEq],
        with: {
            "taskscope:plugin/log": crate::bindings::taskscope::plugin::log,
            "taskscope:plugin/snapshot": crate::bindings::taskscope::plugin::snapshot,
            "taskscope:plugin/state": crate::bindings::taskscope::plugin::state,
            "taskscope:plugin/types": crate::bindings::taskscope::plugin::types,
        },
    });
}
