//! Files below `/proc/PID`: one kernel file, one parser, one file. Parsers take bytes and never fail on odd ones.

pub(crate) mod cmdline;
pub(crate) mod descriptors;
pub(crate) mod environ;
pub(crate) mod escaped;
pub(crate) mod key_value;
pub(crate) mod kind;
pub(crate) mod namespaces;
pub(crate) mod pressure;
pub(crate) mod reader;
pub(crate) mod rollup;
pub(crate) mod schedstat;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod threads;

pub(crate) use reader::Reader;
pub(crate) use stat::Stat;
