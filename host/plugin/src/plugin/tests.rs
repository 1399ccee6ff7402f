//! One plugin that fails again and again, without waiting for its rests.

use std::io::Write;
use std::sync::Mutex;

use wasmtime::component::Component;

use super::*;
use crate::bindings::enricher::Enricher;
use crate::document::Document;
use crate::engine;
use crate::entry::ComponentSource;

#[path = "../../tests/plugins/machine.rs"]
mod machine;

#[test]
fn rests_double_until_the_fifth_failure_in_a_row_disables_for_ten_minutes() {
    let rests = [1, 2, 3, 4, 5, 6, u32::MAX].map(|failures| rest_after(failures).as_secs());
    assert_eq!(rests, [1, 2, 4, 8, 600, 600, 600]);
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Returns what was logged at `warn` since the last time.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

/// The guest of the tests that traps each time, loaded here and now.
fn trapping(engine: &wasmtime::Engine) -> Plugin<Enricher> {
    let path = env!("PLUGIN_TESTING");
    let component = Component::from_file(engine, path).unwrap();
    let linker = engine::linker(engine).unwrap();
    let component = linker.instantiate_pre(&component).unwrap();
    let entry = Entry {
        component: ComponentSource::File(path.into()),
        config_json: r#"{"do":"trap"}"#.to_owned(),
        deadline: Duration::from_secs(20),
        environment: Vec::new(),
        instance: "odd".to_owned(),
        memory_bytes: 64 << 20,
        sha256: None,
    };
    let about = About {
        host_version: "0.1.0".to_owned(),
        node: "n0".to_owned(),
        task: "train/1".to_owned(),
    };
    let mut plugin = Plugin::new(entry, None, Arc::new(about));
    plugin.loaded(Ok(component));
    plugin
}

#[test]
fn the_fifth_failure_in_a_row_is_told_with_the_last_words_and_the_calls() {
    let engine = engine::engine().unwrap();
    let ticker = Ticker::start(engine.weak()).unwrap();
    let mut plugin = trapping(&engine);
    let mut document = Arc::new(Document::new(Arc::new(machine::snapshot(1))));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(tracing::Level::WARN)
        .with_target(false)
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut ask = |plugin: &mut Plugin<Enricher>| {
            let outcome = runtime.block_on(plugin.enrich(&mut document, &ticker));
            (outcome.outcome, outcome.message.unwrap_or_default())
        };
        for failure in 1..=5 {
            lines.take();
            assert_eq!(
                ask(&mut plugin).0,
                OutcomeKind::Trapped,
                "failure {failure}"
            );
            let rest = plugin.rest_until.unwrap() - Instant::now();
            assert!(rest > Duration::from_secs(599) || failure < 5, "{rest:?}");
            assert_eq!(ask(&mut plugin).0, OutcomeKind::BackedOff);
            if failure < 5 {
                plugin.rest_until = None; // as if it had rested
            }
        }
        let told = lines.take();
        let resting = ask(&mut plugin).1;
        for expected in [
            "WARN Plugin odd failed 5 times in a row and rests for 10 minutes: panicked at ",
            "WARN Plugin odd: rank table is upside down\n",
            "WARN Plugin odd: 0: ",
            "testing",
        ] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert!(told.lines().count() <= 26, "{told}");
        let start = "it rests for 10 minutes after 5 failures in a row, the last: panicked at ";
        assert!(resting.starts_with(start), "{resting}");
    });
}
