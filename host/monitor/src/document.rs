//! The report and its stored form, in which statistics stand beside the other fields of the run and of each stage.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Report, Stage, Statistics};

/// The name under which our types keep what the document has beside the other fields.
const STATISTICS: &str = "statistics";
/// The lists of what has statistics too.
const STAGES: [&str; 2] = ["stage_totals", "stages"];

/// Why a text is no report.
#[derive(Debug)]
pub struct DocumentError(serde_json::Error);

impl std::fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "it is no report: {}", self.0)
    }
}

impl std::error::Error for DocumentError {}

impl Report {
    /// Returns the document: keys in order.
    pub fn document(&self) -> Value {
        let mut document = serde_json::to_value(self).expect("a report is plain data");
        raise(&mut document);
        with_statistics(&mut document).for_each(raise);
        document
    }

    /// Reads a document. Fields that are not known are left alone.
    pub fn from_document(mut document: Value) -> Result<Self, DocumentError> {
        let lower = |value: &mut Value| {
            let statistics = Statistics::deserialize(&*value)?;
            if let Some(fields) = value.as_object_mut() {
                fields.insert(STATISTICS.to_owned(), serde_json::to_value(statistics)?);
            }
            Ok(())
        };
        let lowered = with_statistics(&mut document).try_for_each(lower);
        lowered
            .and_then(|()| lower(&mut document))
            .and_then(|()| Self::deserialize(document))
            .map_err(DocumentError)
    }
}

impl Stage {
    /// Returns it as the report's document has it.
    pub fn document(&self) -> Value {
        let mut document = serde_json::to_value(self).expect("a stage is plain data");
        raise(&mut document);
        document
    }
}

/// Returns the stages of a document and their totals, which have statistics as the report has.
fn with_statistics(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let lists = document.as_object_mut().into_iter().flatten();
    let lists = lists.filter(|(name, _)| STAGES.contains(&name.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

/// Puts the fields of the statistics beside the others.
fn raise(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    let statistics = fields.remove(STATISTICS).unwrap_or(Value::Null);
    if let Value::Object(statistics) = statistics {
        let statistics: Map<String, Value> = statistics;
        fields.extend(statistics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{monitor, sample};

    #[test]
    fn a_report_comes_back_from_its_document() {
        let mut monitor = monitor();
        monitor.sample(sample(0.0, &[(1, 100), (2, 50)]), 0);
        monitor.sample(sample(1.0, &[(1, 120)]), 0);
        let report = monitor.report(monitor.about.started_at, 1.5);
        let document = report.document();
        assert_eq!(document["peak_tree_rss_bytes"], 150);
        assert_eq!(document["samples"], 2);
        assert_eq!(document["peaks"]["tree_rss_bytes"]["value"], 150.0);
        assert!(document.get("statistics").is_none());
        assert_eq!(Report::from_document(document).unwrap(), report);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in ["{}", "[]", "null", r#"{"stages": [3]}"#] {
            let document = serde_json::from_str(text).unwrap();
            assert!(Report::from_document(document).is_err(), "{text}");
        }
    }
}
