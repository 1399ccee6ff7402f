//! A settings file may hold any text: it is read or refused with the file's name, and what was read means the same when it
//! is written out and read again.
#![no_main]
#![expect(
    dead_code,
    unused_imports,
    reason = "of the settings of the program only the parser is used"
)]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// The program has no library, so its module is taken as it lies.
#[path = "../../../host/cli"]
mod cli {
    pub(crate) mod config;
}

/// What it asks of the program around it.
mod environment {
    pub(crate) fn os(_name: &str) -> Option<std::ffi::OsString> {
        None
    }
}

mod outcome {
    #[derive(Debug)]
    pub(crate) enum Refusal {
        Settings,
    }

    impl std::fmt::Display for Refusal {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "{self:?}")
        }
    }
}

fuzz_target!(|text: &str| {
    match cli::config::file::parse(text, Path::new("collector.toml")) {
        Err(error) => assert!(error.to_string().starts_with("collector.toml: ")),
        Ok(loaded) => {
            let written = toml::to_string(&loaded.settings).expect("settings are plain data");
            let again = cli::config::file::parse(&written, Path::new("again.toml"));
            let again = again.unwrap_or_else(|error| panic!("{error}\n{written}"));
            let rows = loaded.rows();
            assert_eq!(rows.len(), again.rows().len());
            for (row, again) in rows.iter().zip(again.rows()) {
                assert_eq!((&row.key, &row.value), (&again.key, &again.value));
            }
        }
    }
});
