//! The variables in which two ranks differ, but for what names the rank.

use std::collections::{BTreeMap, BTreeSet};

use super::{Difference, Side, tell};
use crate::case::Case;

/// What differs from rank to rank by design.
const OWN: [&str; 9] = [
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "NODE_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "SLURM_LOCALID",
];

type Variables = BTreeMap<String, String>;

pub(super) fn variables(
    found: &mut Vec<Difference>,
    case: &Case<'_>,
    one: &Side<'_>,
    other: &Side<'_>,
) {
    let ours = &one.process.distributed_environment;
    let theirs = &other.process.distributed_environment;
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names {
        let (mine, its) = (ours.get(name), theirs.get(name));
        let is_by_design = OWN.contains(&name.as_str())
            || mine
                .zip(its)
                .is_some_and(|(mine, its)| names_the_rank((mine, its), (ours, theirs)));
        if mine == its || is_by_design {
            continue;
        }
        let said = |value: Option<&String>| value.map_or("not set", String::as_str).to_owned();
        let path = format!("distributed_environment/{name}");
        tell(
            found,
            case,
            (one, other),
            name,
            (said(mine), said(its)),
            Some((path.clone(), path)),
        );
    }
}

/// Whether two values are alike but for numbers of the rank in them, as in torchrun's `TORCHELASTIC_ERROR_FILE`.
fn names_the_rank(values: (&str, &str), (ours, theirs): (&Variables, &Variables)) -> bool {
    let is_own = |pieces: (&str, &str)| {
        OWN.iter().any(|name| {
            let numbers = ours.get(*name).zip(theirs.get(*name));
            numbers.is_some_and(|(mine, its)| pieces == (mine, its))
        })
    };
    let ends = |letter: char| !letter.is_ascii_alphanumeric();
    let (mine, its) = (
        values.0.split_inclusive(ends),
        values.1.split_inclusive(ends),
    );
    let alike = |(one, other): (&str, &str)| {
        let split = |piece: &'_ str| piece.find(ends).unwrap_or(piece.len());
        let ((one, end), (other, its_end)) =
            (one.split_at(split(one)), other.split_at(split(other)));
        end == its_end && (one == other || is_own((one, other)))
    };
    mine.clone().count() == its.clone().count() && mine.zip(its).all(alike)
}
