//! HTML. Everything that comes from a run is put in by `maud`, which escapes it.

mod ipc;
mod layout;
mod process;
mod processes;
mod rank_sets;
mod run;
mod runs;
mod stacks;
mod trouble;
mod value;
mod verdict;

use maud::Markup;

use crate::answer::Trouble;
use crate::query::Query;
use crate::view::View;

pub(crate) use layout::{Depth, layout};
pub(crate) use process::process;
pub(crate) use run::run;
pub(crate) use runs::runs;
pub(crate) use trouble::{trouble, trouble_part};
pub(crate) use value::value;

/// Returns the part of a run's page that follows the chosen instant.
pub(crate) async fn part(view: &View, name: &str, query: &Query) -> Result<Markup, Trouble> {
    let run = view.run_of(query).await?;
    let moment = View::moment(&run, query.at, query.node.as_deref())?;
    match name {
        "verdict" => {
            let judged = view.judge(&moment).await;
            Ok(verdict::verdict(&judged, &moment))
        }
        "stacks" => stacks::stacks(view, &moment, query).await,
        "processes" => processes::processes(view, &moment).await,
        "ipc" => ipc::ipc(view, &moment).await,
        _ => Err(Trouble::missing(
            format!("there is no part `{}`", crate::digest::short(name)),
            "reload the page",
        )),
    }
}
