//! What of a plugin's answer is taken. Everything that is dropped is counted, by reason.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{Annotation, Finding, ProcessId, Target, Value};

use crate::bindings::enricher::exports::taskscope::plugin::enrich::Enrichment;
use crate::bindings::taskscope::plugin::types as wit;
use crate::convert;
use crate::document::{Document, split_part};
use crate::grants::Grants;
use crate::limits;

/// Keys that are stored without the name of the plugin.
const WELL_KNOWN: [&str; 13] = [
    "duplicate-ranks",
    "group",
    "hidden",
    "label",
    "local-rank",
    "missing-ranks",
    "node",
    "rank",
    "role",
    "score",
    "step",
    "tag",
    "world-size",
];

/// What was taken, and a sentence about what was not.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) findings: Vec<Finding>,
    /// Whether there was more than the limits let through.
    pub(crate) is_over_limit: bool,
    dropped: BTreeMap<&'static str, u32>,
}

/// Why something was dropped.
type Refusal = &'static str;

const NO_TARGET: Refusal = "about something that is not in the snapshot";
const BAD_KEY: Refusal = "with a key that is not 1 to 64 of a-z 0-9 - _ .";
const NOT_FINITE: Refusal = "with a number that is not finite";
const TOO_LONG: Refusal = "with a text over 4 KiB";
const TOO_MANY: Refusal = "over the limit of one answer";
const NO_EVIDENCE: Refusal = "with evidence that does not hold";

impl Taken {
    /// Takes what is sound of `enrichment`, an answer of the plugin `instance` about `document`.
    pub(crate) fn of(
        enrichment: Enrichment,
        document: &Document,
        grants: &Grants,
        instance: &str,
    ) -> Self {
        let mut taken = Self::default();
        let mut known = Known::of(document);
        // Groups first: an annotation may be about a group that a later one makes.
        let annotations = enrichment.annotations.iter();
        let made: Vec<String> = annotations
            .filter_map(|annotation| known.made_group(annotation))
            .collect();
        known.groups.extend(made);
        for (number, annotation) in enrichment.annotations.into_iter().enumerate() {
            if number >= limits::ANNOTATIONS {
                taken.drop_over_limit();
                continue;
            }
            match known.annotation(annotation, instance) {
                Ok(annotation) => taken.annotations.push(annotation),
                Err(reason) => taken.drop(reason),
            }
        }
        for (number, finding) in enrichment.findings.into_iter().enumerate() {
            if number >= limits::FINDINGS {
                taken.drop_over_limit();
                continue;
            }
            match known.finding(finding, grants, instance) {
                Ok(finding) => taken.findings.push(finding),
                Err(reason) => taken.drop(reason),
            }
        }
        taken
    }

    fn drop(&mut self, reason: Refusal) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    fn drop_over_limit(&mut self) {
        self.is_over_limit = true;
        self.drop(TOO_MANY);
    }

    /// Returns how much was dropped and why, or `None` when everything was taken.
    pub(crate) fn complaint(&self) -> Option<String> {
        let reasons: Vec<String> = self
            .dropped
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        let total: u32 = self.dropped.values().sum();
        (total > 0).then(|| {
            format!(
                "{total} of its statements were dropped: {}",
                reasons.join(", ")
            )
        })
    }
}

/// What a plugin can speak about.
struct Known<'a> {
    document: &'a Document,
    groups: HashSet<String>,
    /// Parts of the document that evidence led into, each made once: a thousand findings must cost no more than
    /// the document.
    parts: HashMap<String, Option<serde_json::Value>>,
    processes: HashMap<i32, &'a model::Process>,
}

impl<'a> Known<'a> {
    fn of(document: &'a Document) -> Self {
        let groups = document.annotations().filter_map(|annotation| {
            match (&annotation.value, &annotation.target) {
                (Value::Text(group), Target::Process(_)) if annotation.key == "group" => {
                    Some(group.clone())
                }
                _ => None,
            }
        });
        let processes = document
            .snapshot
            .processes
            .iter()
            .map(|process| (process.pid, process));
        Self {
            document,
            groups: groups.collect(),
            parts: HashMap::new(),
            processes: processes.collect(),
        }
    }

    /// The name of the group that `annotation` makes, if it will be taken.
    fn made_group(&self, annotation: &wit::Annotation) -> Option<String> {
        match (&annotation.value, &annotation.target) {
            (wit::Value::Text(group), wit::Target::Process(_)) if annotation.key == "group" => {
                let is_taken = group.len() <= limits::TEXT_BYTES
                    && self.target(annotation.target.clone()).is_ok();
                is_taken.then(|| group.clone())
            }
            _ => None,
        }
    }

    fn annotation(
        &self,
        annotation: wit::Annotation,
        instance: &str,
    ) -> Result<Annotation, Refusal> {
        let key = check_key(annotation.key)?;
        let key = if WELL_KNOWN.contains(&key.as_str()) {
            key
        } else {
            format!("{instance}/{key}")
        };
        let value = convert::model_value(annotation.value);
        match &value {
            Value::Text(text) if text.len() > limits::TEXT_BYTES => return Err(TOO_LONG),
            Value::Number(number) if !number.is_finite() => return Err(NOT_FINITE),
            _ => {}
        }
        Ok(Annotation {
            key,
            plugin: instance.to_owned(),
            target: self.target(annotation.target)?,
            value,
        })
    }

    fn finding(
        &mut self,
        finding: wit::Finding,
        grants: &Grants,
        instance: &str,
    ) -> Result<Finding, Refusal> {
        let target = self.target(finding.target.clone())?;
        let mut finding = convert::model_finding(finding, target, instance);
        finding.kind = check_key(finding.kind)?;
        if finding.message.len() > limits::TEXT_BYTES {
            return Err(TOO_LONG);
        }
        if finding.evidence.len() > limits::EVIDENCE
            || !finding
                .evidence
                .iter()
                .all(|evidence| self.holds(evidence, grants))
        {
            return Err(NO_EVIDENCE);
        }
        Ok(finding)
    }

    /// Whether the document has the value that is said at the pointer that is said.
    fn holds(&mut self, evidence: &model::Evidence, grants: &Grants) -> bool {
        if evidence.pointer.len().max(evidence.value.len()) > limits::TEXT_BYTES {
            return false;
        }
        let (part, rest) = split_part(&evidence.pointer);
        let document = self.document;
        let make = || document.part(part, grants);
        let value = self.parts.entry(part.to_owned()).or_insert_with(make);
        let found = value.as_ref().and_then(|value| value.pointer(rest));
        let said: Option<serde_json::Value> = serde_json::from_str(&evidence.value).ok();
        found.is_some() && found == said.as_ref()
    }

    fn target(&self, target: wit::Target) -> Result<Target, Refusal> {
        let identify = |pid: i32| -> Option<ProcessId> { Some(self.processes.get(&pid)?.identity) };
        let target = convert::model_target(target, identify).ok_or(NO_TARGET)?;
        let length = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
        let is_known = match &target {
            Target::Snapshot | Target::Process(_) => true,
            Target::Thread { process, tid } => self.has_thread(process.pid, *tid),
            Target::Stack(index) => {
                *index < length(self.document.stacks().offsets.len()).saturating_sub(1)
            }
            Target::Frame(index) => *index < length(self.document.stacks().frames.len()),
            Target::Group(name) => self.groups.contains(name),
        };
        if is_known { Ok(target) } else { Err(NO_TARGET) }
    }

    fn has_thread(&self, pid: i32, tid: i32) -> bool {
        self.processes.get(&pid).is_some_and(|process| {
            let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
            process.proc.threads.iter().any(|thread| thread.tid == tid)
                || traces
                    .into_iter()
                    .any(|trace| trace.os_thread_id.map(i32::try_from) == Some(Ok(tid)))
        })
    }
}

fn check_key(key: String) -> Result<String, Refusal> {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let is_sound = (1..=limits::KEY_BYTES).contains(&key.len()) && key.bytes().all(is_allowed);
    if is_sound { Ok(key) } else { Err(BAD_KEY) }
}
