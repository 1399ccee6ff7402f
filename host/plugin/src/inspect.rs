//! Looking at a component without running it on anything: what it is, what it wants, whether it is served here.

use std::time::Duration;

use serde::Serialize;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::bindings::enricher::Enricher;
use crate::call::{Called, begin_call, settle, timed};
use crate::compiler::Compiler;
use crate::contract::{Contract, World};
use crate::convert;
use crate::engine::{self, Ticker};
use crate::entry::{Description, Entry};
use crate::failure::Failure;
use crate::guest::Guest;
use crate::interface::{self, State};
use crate::load::{CodeState, Loader};
use crate::world::{Exports, Outlet};

/// How long a component may take to say what it is.
const DEADLINE: Duration = Duration::from_secs(10);

/// What tells whether a component exports what its world asks for.
type Check = fn(&InstancePre<Guest>) -> wasmtime::Result<()>;

/// What is known of a component. What is absent was not reached, because of `problem`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Where its machine code was before.
    pub code: Option<CodeState>,
    /// What it asks for and offers.
    pub contract: Option<Contract>,
    /// What it says about itself.
    pub description: Option<Description>,
    /// Why it cannot be used.
    pub problem: Option<String>,
    /// The SHA-256 of its bytes, hexadecimal: what pins it.
    pub sha256: Option<String>,
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
}

/// Looks at the components of entries, and compiles those that were not.
pub struct Inspector {
    linker: Linker<Guest>,
    loader: Loader,
    /// With what sinks may call beside that.
    linker_of_sinks: Linker<Guest>,
    runtime: tokio::runtime::Runtime,
    ticker: Ticker,
    /// What is being compiled is given up when this is dropped.
    _closing: std::io::PipeWriter,
}

impl Inspector {
    /// Prepares to look at the components of `entries`.
    pub fn new(entries: Vec<Entry>, compiler: Compiler) -> Result<Self, String> {
        Self::begin(entries, compiler).map_err(|error| error.root_cause().to_string())
    }

    fn begin(entries: Vec<Entry>, compiler: Compiler) -> wasmtime::Result<Self> {
        let engine = engine::engine()?;
        let ticker = Ticker::start(engine.weak())?;
        let linker = engine::linker(&engine)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let (closing, closer) = std::io::pipe()?;
        let mut linker_of_sinks = linker.clone();
        interface::add_those_of_sinks(&mut linker_of_sinks)?;
        // What it is asked here is the same of all worlds.
        let mut loader =
            Loader::new::<Enricher>(engine, linker.clone(), compiler, entries, closing);
        loader.load_embedded();
        Ok(Self {
            linker,
            loader,
            linker_of_sinks,
            runtime,
            ticker,
            _closing: closer,
        })
    }

    /// Why compiled components cannot be kept on disk, where that is so.
    pub fn cache_problem(&self) -> Option<String> {
        self.loader.cache_problem()
    }

    /// Looks at the component of the entry `index`. The entry's settings are not used, its pin is.
    pub fn inspect(&mut self, index: usize) -> Inspection {
        let mut found = Inspection::default();
        found.problem = self.look(index, &mut found).err();
        found
    }

    fn look(&mut self, index: usize, found: &mut Inspection) -> Result<(), String> {
        let words = |error: crate::load::LoadError| error.to_string();
        let mut identified = self.loader.identify(index).map_err(words)?;
        found.sha256 = Some(identified.sha256());
        found.size_bytes = Some(identified.size_bytes);
        self.loader.check_pin(index, &identified).map_err(words)?;
        found.code = Some(self.loader.code_state(index, &identified));
        let component = self.loader.component_of(index, &mut identified);
        let component = component.map_err(words)?;
        let contract = Contract::of(component.engine(), &component);
        let contract = contract.map_err(|error| error.to_string())?;
        found.contract = Some(contract.clone());
        found.description = Some(self.describe(index, &component, &contract)?);
        Ok(())
    }

    /// Asks `component` what it is, in an instance that has no settings.
    fn describe(
        &self,
        index: usize,
        component: &Component,
        contract: &Contract,
    ) -> Result<Description, String> {
        let unfit = |error: &wasmtime::Error| contract.unfit(error).to_string();
        let (linker, check): (_, Check) = match contract.world {
            World::Enricher => (&self.linker, Enricher::check),
            World::Sink => (&self.linker_of_sinks, Outlet::check),
        };
        let fitting = linker.instantiate_pre(component);
        let fitting = fitting.map_err(|error| unfit(&error))?;
        check(&fitting).map_err(|error| unfit(&error))?;
        let entry = self.loader.entry(index);
        let store = Guest::store(component.engine(), entry, None, State::default());
        let mut store = store.map_err(|(message, _)| message)?;
        let described = async {
            let instance = fitting.instantiate_async(&mut store);
            let instance = timed(&self.ticker, DEADLINE, instance).await;
            let instance = settle(&store, instance)?;
            begin_call(&mut store, DEADLINE);
            let describe = contract.describe(&instance, &mut store);
            let describe = settle(&store, Called::Returned(describe))?;
            let said = timed(&self.ticker, DEADLINE, describe.call_async(&mut store, ())).await;
            settle(&store, said).map(|(said,)| convert::description(said))
        };
        let described: Result<Description, Failure> = self.runtime.block_on(described);
        described.map_err(|failure| format!("it cannot say what it is: {}", failure.message))
    }
}
