//! Documents against their description: every value of a real answer is as `openapi.json` says, and nothing is in it of which that
//! does not tell.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Page;
use crate::job::{self, Job};

#[test]
fn documents_are_as_the_description_says() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        nodes: 2,
        ranks: 4,
        snapshots: 8,
        stuck: Some(5),
    };
    job::write(root.path(), job);
    job::put_records(root.path(), job);
    let page = Page::of(root.path());
    let described = page.json("api/v1/openapi.json");
    let mut checked = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        let responses = &item["get"]["responses"];
        let path = path.trim_start_matches('/');
        // Nodes, times and processes that are not there, and a query that is none.
        for query in [
            "",
            "?at=latest&node=node-1",
            "?node=none&task=none",
            "?attempt=-1",
        ] {
            let schema = |status: u16| {
                let content = &responses[status.to_string()]["content"];
                content.get("application/json").map(|it| &it["schema"])
            };
            if schema(200).is_none() {
                continue;
            }
            let reply = page.get(&format!("{path}{query}"));
            let schema = schema(reply.status)
                .unwrap_or_else(|| panic!("{path}{query}: {} is not described", reply.status));
            let document: Value = serde_json::from_slice(&reply.body).unwrap();
            let mut faults = Vec::new();
            compare(&document, schema, &described, path, &mut faults);
            assert_eq!(faults, [""; 0], "{path}{query}");
            checked += 1;
        }
    }
    assert!(checked >= 24, "{checked}");
}

#[test]
fn a_parameter_that_is_not_understood_is_an_error_that_the_description_tells_of() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        nodes: 1,
        ranks: 1,
        snapshots: 1,
        stuck: None,
    };
    job::write(root.path(), job);
    let page = Page::of(root.path());
    let described = page.json("api/v1/openapi.json");
    let mut checked = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        let responses = &item["get"]["responses"];
        let parameters = item["get"]["parameters"].as_array().unwrap().iter();
        for name in parameters.map(|it| it["name"].as_str().unwrap()) {
            let odd = ["%00", "", "..%2F..", "%E2%80%AE", "NaN", "-1"];
            // What a node may be called is anybody's choice, and a task has many names.
            let odd = match name {
                "node" => &odd[..0],
                "task" => &odd[..4],
                _ => &odd,
            };
            for odd in odd {
                let path = format!("{}?{name}={odd}", path.trim_start_matches('/'));
                let reply = page.get(&path);
                assert_eq!(reply.status, 400, "{path}: {}", reply.text());
                assert!(!responses["400"].is_null(), "{path}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 60, "{checked}");
}

#[test]
fn the_documentation_tells_of_every_document_that_the_description_does() {
    let told = include_str!("../../../../docs/view.md").lines();
    let told = told.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let root = tempfile::tempdir().unwrap();
    let described = Page::of(root.path()).json("api/v1/openapi.json");
    let described = described["paths"].as_object().unwrap().keys();
    let described = described.filter_map(|path| path.strip_prefix("/api/v1/"));
    assert_eq!(named(told), named(described));
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.collect()
}

#[test]
fn what_is_not_described_is_found() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": ["integer", "null"]}, "b": {"type": "array", "items": {"enum": ["x"]}}}});
    for (document, count) in [
        (json!({"a": 1, "b": ["x"]}), 0),
        (json!({"a": null}), 0),
        (json!({"a": 1.5}), 1),
        (json!({"b": ["y", "x"]}), 2),
        (json!({"a": 1, "c": 1}), 1),
        (json!([]), 1),
    ] {
        let mut faults = Vec::new();
        compare(&document, &schema, &Value::Null, "it", &mut faults);
        assert_eq!(faults.len(), count, "{document}: {faults:?}");
    }
}

/// Adds what is not as a schema says; of JSON Schema, the words that our description uses.
fn compare(value: &Value, schema: &Value, all: &Value, place: &str, faults: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = all.pointer(name.trim_start_matches('#')).unwrap();
        return compare(value, schema, all, place, faults);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    if !types.is_empty() && !types.iter().any(|it| is_of(value, it.as_str().unwrap())) {
        return faults.push(format!("{place} is {value}, not {types:?}"));
    }
    if let Some(known) = schema["enum"].as_array().filter(|it| !it.contains(value)) {
        faults.push(format!("{place} is {value}, none of {known:?}"));
    }
    if let (Some(list), Some(items)) = (value.as_array(), schema.get("items")) {
        for (index, item) in list.iter().enumerate() {
            compare(item, items, all, &format!("{place}/{index}"), faults);
        }
    }
    let Some(fields) = value.as_object() else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().unwrap()) {
            faults.push(format!("{place} lacks {name}"));
        }
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, value) in fields {
        let place = format!("{place}/{name}");
        match properties.get(name) {
            Some(schema) => compare(value, schema, all, &place, faults),
            None => faults.push(format!("{place} is not described")),
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        other => panic!("a schema says `{other}`"),
    }
}
