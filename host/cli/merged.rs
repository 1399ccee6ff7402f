//! Merged stacks for `show` and `diff`: what is asked for, and the snapshots that it takes.

mod reading;

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use diagnose::{Level, RankSet, Selection, Threads};

pub(crate) use reading::{From, at, over};

/// How stacks are merged.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MergeArgs {
    /// Where lines tell places apart, beside functions: nowhere, in focus files and where the job's own code is, everywhere
    /// [default: focus]
    #[arg(
        long,
        value_name = "none|focus|all",
        hide_possible_values = true,
        requires = "stacks"
    )]
    lines: Option<Lines>,

    /// Of which threads: of the main ones, of all [default: all]
    #[arg(
        long,
        value_name = "main|all",
        hide_possible_values = true,
        requires = "stacks"
    )]
    threads: Option<ThreadsChoice>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lines {
    None,
    Focus,
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThreadsChoice {
    Main,
    All,
}

impl MergeArgs {
    /// Returns what is merged, of these ranks alone where there are any.
    pub(crate) fn selection(&self, ranks: Option<RankSet>) -> Selection {
        Selection {
            level: match self.lines {
                Some(Lines::None) => Level::Function,
                Some(Lines::Focus) | None => Level::Focus,
                Some(Lines::All) => Level::Line,
            },
            ranks,
            threads: match self.threads {
                Some(ThreadsChoice::Main) => Threads::Main,
                Some(ThreadsChoice::All) | None => Threads::All,
            },
        }
    }
}

/// Refuses ranks of which not one is there.
pub(crate) fn are_there(wanted: Option<&RankSet>, ranks: &BTreeSet<u64>) -> anyhow::Result<()> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    if ranks.iter().any(|rank| wanted.has(*rank)) {
        return Ok(());
    }
    match diagnose::ranges(ranks.iter().copied()) {
        there if there.is_empty() => anyhow::bail!("no rank was seen there, so not {wanted}"),
        there => anyhow::bail!("there is no rank {wanted}; there are {there}"),
    }
}
