//! Glue between the `enricher` world and the rule in [`rule`]: hands over settings and processes, and takes tags.

mod bindings {
    #![expect(clippy::pedantic, reason = "generated")]
    wit_bindgen::generate!({ world: "enricher", path: "../../wit" });
}
mod rule;

use std::cell::RefCell;

use bindings::exports::taskscope::plugin::enrich::{Enrichment, Guest as Enrich};
use bindings::exports::taskscope::plugin::plugin::{Context, Description, Guest as Plugin, Needs};
use bindings::taskscope::plugin::snapshot;
use bindings::taskscope::plugin::types::{Annotation, Attribute, Error, ErrorKind, Target, Value};

use rule::{Facts, Rules, Tagged};

struct ProcessTags;

thread_local! {
    static RULES: RefCell<Rules> = RefCell::default();
    static TAGGED: RefCell<Tagged> = RefCell::default();
}

impl Plugin for ProcessTags {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            summary: env!("CARGO_PKG_DESCRIPTION").to_owned(),
            needs: Needs::PROCESSES,
            config_schema: Some(include_str!("../config.schema.json").to_owned()),
            requires: Vec::new(),
        }
    }

    fn init(context: Context) -> Result<(), Error> {
        let rules = Rules::parse(&context.config).map_err(|message| Error {
            kind: ErrorKind::Config,
            message,
            retry_after_ms: None,
        })?;
        RULES.set(rules);
        TAGGED.take();
        Ok(())
    }
}

impl Enrich for ProcessTags {
    fn run() -> Result<Enrichment, Error> {
        let annotations = RULES.with_borrow(|rules| {
            let before = TAGGED.take();
            let mut tagged = Tagged::default();
            let mut annotations = Vec::new();
            for process in snapshot::processes() {
                let matches =
                    |fact: &Attribute| fact.key == "matches-pattern" && fact.value == "true";
                let facts = Facts {
                    command: process.cmdline.join(" "),
                    exe: process.exe.unwrap_or_default(),
                    matches_pattern: process.attributes.iter().any(matches),
                    name: process.name,
                };
                for tag in tagged.tags(facts, rules, &before).iter() {
                    annotations.push(Annotation {
                        target: Target::Process(process.pid),
                        key: "tag".to_owned(),
                        value: Value::Text(tag.clone()),
                    });
                }
            }
            TAGGED.set(tagged);
            annotations
        });
        Ok(Enrichment {
            annotations,
            findings: Vec::new(),
        })
    }
}

bindings::export!(ProcessTags with_types_in bindings);
