//! `snapshot`: the snapshot that the present call is about, pulled part by part. Outside a call everything is empty.

use wasmtime::component::{HasData, Linker};

use crate::bindings::taskscope::plugin::snapshot::{
    self, Annotation, Encoding, EnvValue, Finding, Process, StackTable, StackedThread, Summary,
    Thread,
};
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::convert;
use crate::document::Document;
use crate::grants::Grants;
use crate::guest::Guest;
use crate::interface::error;
use crate::limits;

/// The snapshot and what a guest may see of it.
struct View<'a> {
    document: Option<&'a Document>,
    grants: &'a Grants,
}

struct Views;

impl HasData for Views {
    type Data<'a> = View<'a>;
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    snapshot::add_to_linker::<_, Views>(linker, |guest| View {
        document: guest.document.as_deref(),
        grants: &guest.grants,
    })
}

/// The error of what needs a snapshot where there is none.
pub(super) fn nothing() -> Error {
    error(ErrorKind::Rejected, "there is no snapshot outside a call")
}

impl<'a> View<'a> {
    fn processes(&self) -> &'a [model::Process] {
        self.document
            .map_or(&[], |document| &document.snapshot.processes)
    }

    fn threads<'b>(&self, processes: impl Iterator<Item = &'b model::Process>) -> Vec<Thread> {
        let Some(document) = self.document else {
            return Vec::new();
        };
        let ticks = document.snapshot.machine.clock_ticks_per_second;
        let stacks = document.stacks_of_threads();
        processes
            .flat_map(|process| convert::threads(process, stacks, ticks))
            .collect()
    }
}

impl snapshot::Host for View<'_> {
    fn about(&mut self) -> Summary {
        self.document.map_or_else(convert::no_summary, |document| {
            convert::summary(&document.snapshot)
        })
    }

    fn processes(&mut self) -> Vec<Process> {
        let ticks = self.document.map_or(0, |document| {
            document.snapshot.machine.clock_ticks_per_second
        });
        View::processes(self)
            .iter()
            .map(|process| convert::process(process, ticks))
            .collect()
    }

    fn threads(&mut self) -> Vec<Thread> {
        View::threads(self, View::processes(self).iter())
    }

    fn threads_of(&mut self, pid: u32) -> Vec<Thread> {
        let wanted = View::processes(self)
            .iter()
            .filter(|process| u32::try_from(process.pid) == Ok(pid));
        View::threads(self, wanted)
    }

    fn stacks(&mut self) -> StackTable {
        let none = model::StackTable::default();
        convert::stack_table(self.document.map_or(&none, Document::stacks))
    }

    fn stacked_threads(&mut self) -> Vec<StackedThread> {
        let Some(document) = self.document else {
            return Vec::new();
        };
        let stacks = document.stacks_of_threads();
        let processes = View::processes(self).iter();
        processes
            .flat_map(|process| convert::stacked_threads(process, stacks))
            .collect()
    }

    fn environment(&mut self, names: Vec<String>) -> Vec<EnvValue> {
        let granted: Vec<&String> = names
            .iter()
            .filter(|name| self.grants.allow(name))
            .collect();
        let of = |process: &model::Process| -> Vec<EnvValue> {
            let found = granted
                .iter()
                .filter_map(|&name| Some((name, process.distributed_environment.get(name)?)));
            found
                .map(|(name, value)| convert::environment_value(process, name, value))
                .collect()
        };
        View::processes(self).iter().flat_map(of).collect()
    }

    fn annotations(&mut self, key_prefix: String) -> Vec<Annotation> {
        let annotations = self.document.into_iter().flat_map(Document::annotations);
        let wanted = annotations.filter(|annotation| annotation.key.starts_with(&key_prefix));
        wanted.map(convert::annotation).collect()
    }

    fn findings(&mut self) -> Vec<Finding> {
        self.document
            .into_iter()
            .flat_map(Document::findings)
            .map(convert::finding)
            .collect()
    }

    fn query(&mut self, pointer: String) -> Option<String> {
        let value = self.document?.at(&pointer, self.grants)?;
        let text = value.to_string();
        (text.len() <= limits::QUERY_BYTES).then_some(text)
    }

    fn encode(&mut self, how: Encoding) -> Result<Vec<u8>, Error> {
        let document = self.document.ok_or_else(nothing)?;
        document.encode(how, self.grants)
    }
}
