//! `taskscope report`

use anyhow::Context;
use clap::Args;
use monitor::{Curve, Point, Report, Segment};
use store::{Place, RecordKind, Store, StoreError};

use crate::args::StoredArgs;
use crate::commands::World;
use crate::config;
use crate::ends::StoredEnds;
use crate::outcome::Outcome;
use crate::page;
use crate::root;
use crate::ui;

/// Show what a run came to: memory and CPU over time, peaks and who made them, stages
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    stored: StoredArgs,

    /// So many points of the curves at most, each with the highest values of its time
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u16).range(1..))]
    points: u16,

    /// Print JSON: the report as it is stored, with the curves as `curve`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ReportArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let location = root::location(args.stored.root.as_deref(), &loaded)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (report, curve, ends, other_nodes) = runtime.block_on(async {
        let store = Store::open(&location)?;
        let source = root::source(&store, &location, args.stored.wanted()).await?;
        let (place, other_nodes) = source.newest_place(&store).await?;
        let report = report(&store, &place).await?;
        let curve = curve(&store, &place, usize::from(args.points)).await?;
        let ends = StoredEnds::read(&store, &place, report.root).await?;
        anyhow::Ok((report, curve, ends, other_nodes))
    })?;
    let text = if args.json {
        let mut document = report.document();
        document["curve"] = serde_json::to_value(&curve)?;
        document["obituaries"] = serde_json::to_value(&ends.notable)?;
        document["ended_well"] = ends.well.into();
        document["obituaries_left_out"] = ends.left_out.into();
        document["unseen"] = serde_json::to_value(ends.unseen)?;
        store::encode_json(&document)? + "\n"
    } else {
        page::report(
            &report,
            &curve,
            &ends.lines(&report),
            &other_nodes,
            world.ui,
        )
    };
    ui::data(&text)?;
    Ok(Outcome::Well)
}

async fn report(store: &Store, place: &Place) -> anyhow::Result<Report> {
    let key = place.report();
    match store.record(&key).await {
        Ok(document) => Report::from_document(document).with_context(|| key.to_string()),
        Err(StoreError::NotFound { .. }) => anyhow::bail!(
            "there is no report of {place}: it is written while a task is watched by this version of taskscope; \
             `taskscope show` shows its snapshots"
        ),
        Err(error) => Err(error.into()),
    }
}

/// Reads the segments one after the other, so that a long run takes no more memory than a short one.
async fn curve(store: &Store, place: &Place, points: usize) -> anyhow::Result<Vec<Point>> {
    let mut curve = Curve::new(points);
    for key in store.records(place, RecordKind::Samples, None).await? {
        let segment: Segment = store.record(&key).await?;
        curve.add(&segment);
    }
    Ok(curve.finish())
}
