//! Whether a component is a plugin that is served here: told by the names of what it exports and imports.

use serde::Serialize;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, Instance, TypedFunc};
use wasmtime::{Engine, Store};

use crate::bindings::exports::taskscope::plugin::plugin::Description;
use crate::guest::Guest;
use crate::limits;
use crate::text::one_line;

/// What the names of our interfaces begin with.
const PACKAGE: &str = "taskscope:plugin/";
/// The version of `wit/` that is served.
pub const CONTRACT: &str = "0.1.0";
/// What WASI 0.2 gives, each with nothing behind it but clocks and random numbers.
const WASI: [&str; 6] = [
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

/// What kind of plugin a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// It says something about snapshots.
    Enricher,
    /// It takes snapshots somewhere.
    Sink,
}

/// What a component asks for and offers, by its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contract {
    /// What it imports, by name.
    pub imports: Vec<Import>,
    /// The version of `wit/` that it was built against.
    pub version: String,
    /// What it is.
    pub world: World,
}

/// An interface that a component imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The functions of it that it may call.
    pub functions: Vec<String>,
    /// Its name with its version, such as `taskscope:plugin/snapshot@0.1.0`.
    pub name: String,
}

/// Why a component is no plugin that is served here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContractError {
    #[error(
        "it is a component of another kind: it exports {exports}, and a plugin exports \
         `{PACKAGE}plugin`; build it against the world `enricher` or `sink` of wit/"
    )]
    NoPlugin { exports: String },
    #[error(
        "it exports `{PACKAGE}plugin` and neither `{PACKAGE}enrich`, as an enricher does, nor \
         `{PACKAGE}deliver`, as a sink does; build it against one of the worlds of wit/"
    )]
    NoWorld,
    #[error(
        "it was built against taskscope:plugin {found}, which is older than what is served here \
         ({CONTRACT}); build it anew against wit/"
    )]
    Older { found: String },
    #[error(
        "it needs a taskscope that serves taskscope:plugin >= {needed}; this one serves {CONTRACT}{why}"
    )]
    Newer { needed: String, why: String },
    #[error("it imports {names}, which plugins are not given")]
    Foreign { names: String },
    #[error("it is {found}, and this entry wants {wanted}")]
    OtherWorld { found: World, wanted: World },
    #[error("it does not fit the world `{world}` of taskscope:plugin {CONTRACT}: {reason}")]
    Unfit { world: &'static str, reason: String },
}

impl std::fmt::Display for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Enricher => "an enricher",
            Self::Sink => "a sink",
        })
    }
}

impl Contract {
    /// Returns the contract of `component`.
    pub(crate) fn of(engine: &Engine, component: &Component) -> Result<Self, ContractError> {
        let ty = component.component_type();
        let exports: Vec<String> = ty
            .exports(engine)
            .map(|(name, _)| name.to_owned())
            .collect();
        let version = |interface: &str| {
            let ours = |name: &String| {
                let rest = name.strip_prefix(PACKAGE)?.strip_prefix(interface)?;
                rest.strip_prefix('@').map(str::to_owned)
            };
            exports.iter().find_map(ours)
        };
        let Some(found) = version("plugin") else {
            let exports = listed(exports.iter().map(String::as_str));
            return Err(ContractError::NoPlugin { exports });
        };
        check_line(&found)?;
        let world = match (version("enrich"), version("deliver")) {
            (Some(_), _) => World::Enricher,
            (None, Some(_)) => World::Sink,
            (None, None) => return Err(ContractError::NoWorld),
        };
        let imports: Vec<Import> = ty
            .imports(engine)
            .map(|(name, item)| Import::of(engine, name, &item.ty))
            .collect();
        let contract = Self {
            imports,
            version: found,
            world,
        };
        contract.check_imports()?;
        Ok(contract)
    }

    fn check_imports(&self) -> Result<(), ContractError> {
        let is_known = |name: &str| {
            name.starts_with(PACKAGE) || WASI.iter().any(|known| name.starts_with(known))
        };
        let names = self.imports.iter().map(|import| import.name.as_str());
        let foreign: Vec<&str> = names.filter(|name| !is_known(name)).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        let names = listed(foreign.into_iter());
        Err(ContractError::Foreign { names })
    }

    /// Why a component with this contract could not be linked: `error` is the linker's.
    pub(crate) fn unfit(&self, error: &wasmtime::Error) -> ContractError {
        let reason = one_line(&error.root_cause().to_string(), limits::TEXT_BYTES);
        let imported = self.imports.iter().filter_map(|import| {
            let name = import.name.strip_prefix(PACKAGE)?;
            name.split_once('@').map(|(_, version)| version)
        });
        let newest = imported
            .chain([self.version.as_str()])
            .max_by_key(|version| parts(version));
        match newest {
            Some(newest) if parts(newest) > parts(CONTRACT) => ContractError::Newer {
                needed: newest.to_owned(),
                why: format!(" ({reason})"),
            },
            _ => ContractError::Unfit {
                world: match self.world {
                    World::Enricher => "enricher",
                    World::Sink => "sink",
                },
                reason,
            },
        }
    }

    /// Returns the function that says what the plugin is, which is the same in all worlds.
    pub(crate) fn describe(
        &self,
        instance: &Instance,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<TypedFunc<(), (Description,)>> {
        let missing = || wasmtime::Error::msg("it exports no `describe`");
        let name = format!("{PACKAGE}plugin@{}", self.version);
        let plugin = instance.get_export_index(&mut *store, None, &name);
        let plugin = plugin.ok_or_else(missing)?;
        let describe = instance.get_export_index(&mut *store, Some(&plugin), "describe");
        instance.get_typed_func(&mut *store, describe.ok_or_else(missing)?)
    }

    /// Refuses a component of another world than `wanted`.
    pub(crate) fn check_world(&self, wanted: World) -> Result<(), ContractError> {
        let found = self.world;
        if found == wanted {
            return Ok(());
        }
        Err(ContractError::OtherWorld { found, wanted })
    }
}

impl Import {
    fn of(engine: &Engine, name: &str, item: &ComponentItem) -> Self {
        let functions = match item {
            ComponentItem::ComponentInstance(instance) => functions(engine, instance),
            _ => Vec::new(),
        };
        Self {
            functions,
            name: name.to_owned(),
        }
    }
}

fn functions(engine: &Engine, instance: &types::ComponentInstance) -> Vec<String> {
    let functions = instance
        .exports(engine)
        .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
    functions.map(|(name, _)| name.to_owned()).collect()
}

/// Versions agree within a line, which is 0.1 here; wasmtime sees to what is within.
fn check_line(found: &str) -> Result<(), ContractError> {
    let line = |version| {
        let (major, minor, _) = parts(version);
        (major, minor)
    };
    match line(found).cmp(&line(CONTRACT)) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(ContractError::Older {
            found: found.to_owned(),
        }),
        std::cmp::Ordering::Greater => Err(ContractError::Newer {
            needed: found.to_owned(),
            why: String::new(),
        }),
    }
}

/// The three numbers of a version; what is no number counts as 0.
fn parts(version: &str) -> (u64, u64, u64) {
    let mut numbers = version
        .split(['.', '-', '+'])
        .map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// Names for a sentence.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 6;
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let mut quoted: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", one_line(name, limits::KEY_BYTES)))
        .collect();
    if names.len() > SHOWN {
        quoted.push(format!("{} more", names.len() - SHOWN));
    }
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_interface_text() {
        let text = include_str!("../../../wit/taskscope.wit");
        assert!(text.contains(&format!("package taskscope:plugin@{CONTRACT};")));
    }

    #[test]
    fn versions_of_one_line_are_served_and_others_are_older_or_newer() {
        assert!(check_line("0.1.0").is_ok() && check_line("0.1.7").is_ok());
        let said = |version: &str| check_line(version).unwrap_err().to_string();
        assert!(said("0.0.9").contains("0.0.9, which is older than what is served here (0.1.0)"));
        let newer =
            "it needs a taskscope that serves taskscope:plugin >= 0.2.0; this one serves 0.1.0";
        assert_eq!(said("0.2.0"), newer);
    }

    #[test]
    fn many_names_are_counted() {
        let names = ["a"; 8];
        assert_eq!(
            listed(names.into_iter()),
            "`a`, `a`, `a`, `a`, `a`, `a`, 2 more"
        );
        assert_eq!(listed([].into_iter()), "nothing");
    }
}
