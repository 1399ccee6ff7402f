//! Settings: the example file is true, and wrong ones are refused with line and caret.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Settings, file};

const EXAMPLE: &str = include_str!("../../../examples/collector.toml");

/// The example with the lines that are off by default switched on.
fn everything() -> String {
    EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("#= ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

fn keys(text: &str) -> BTreeSet<String> {
    fn walk(prefix: &str, value: &toml::Value, keys: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) if !prefix.ends_with(".config") => {
                for (name, inner) in table {
                    let key = if prefix.is_empty() {
                        name.clone()
                    } else {
                        format!("{prefix}.{name}")
                    };
                    walk(&key, inner, keys);
                }
            }
            toml::Value::Array(items)
                if ["enricher", "sink", "sink.permissions.dirs"].contains(&prefix) =>
            {
                for item in items {
                    walk(prefix, item, keys);
                }
            }
            _ => drop(keys.insert(prefix.to_owned())),
        }
    }
    let mut keys = BTreeSet::new();
    walk(
        "",
        &toml::Value::Table(toml::from_str(text).unwrap()),
        &mut keys,
    );
    keys
}

fn refused(text: &str) -> String {
    format!(
        "{:#}",
        file::parse(text, Path::new("collector.toml")).unwrap_err()
    )
}

#[test]
fn the_example_as_it_stands_is_the_defaults() {
    let example: Settings = toml::from_str(EXAMPLE).unwrap();
    let [example, default] =
        [example, Settings::default()].map(|it| serde_json::to_value(it).unwrap());
    assert_eq!(example, default);
}

#[test]
fn the_example_lists_every_setting_and_no_other() {
    let settings: Settings = toml::from_str(&everything()).unwrap();
    let known = keys(&toml::to_string(&settings).unwrap());
    assert_eq!(known, keys(&everything()));
    // Nothing that can be set is missing from the example: with all lines on, no optional value is unset.
    let unset = serde_json::to_string(&settings)
        .unwrap()
        .matches(":null")
        .count();
    assert_eq!(unset, 0);
}

#[test]
fn an_unknown_key_is_shown_where_it_stands() {
    insta::assert_snapshot!(refused("[capture]\nintervall = \"2m\"\n"), @r#"
    collector.toml: TOML parse error at line 2, column 1
      |
    2 | intervall = "2m"
      | ^^^^^^^^^
    unknown field `intervall`, expected one of `interval`, `scope`, `process-pattern`, `focus-files`, `environment`, `redact`, `budget`, `shared-memory`, `stacks`
    "#);
}

#[test]
fn wrong_values_name_the_accepted_form() {
    insta::assert_snapshot!(refused("[capture]\ninterval = 120\n"), @r#"
    collector.toml: TOML parse error at line 2, column 12
      |
    2 | interval = 120
      |            ^^^
    invalid type: integer `120`, expected a duration above zero and up to 30 days, such as "120s", "2m" or "500ms"
    "#);
    insta::assert_snapshot!(refused("[plugins]\nmemory = \"a lot\"\n"), @r#"
    collector.toml: TOML parse error at line 2, column 10
      |
    2 | memory = "a lot"
      |          ^^^^^^^
    `a lot` is not a size above zero, such as "512 MiB" or "10 GB"
    "#);
}

#[test]
fn impossible_durations_are_refused() {
    for bad in [
        "0s",
        "-1s",
        "nan",
        "inf",
        "1e99s",
        "",
        "120",
        "2 fortnights",
    ] {
        let text = format!("[capture]\ninterval = \"{bad}\"\n");
        assert!(
            file::parse(&text, Path::new("x")).is_err(),
            "{bad} was accepted"
        );
    }
}

#[test]
fn a_budget_is_a_share_of_one_core_with_its_sign() {
    for (text, percent) in [("1%", 1.0), ("0.5 %", 0.5), ("100%", 100.0), (".01%", 0.01)] {
        let loaded = file::parse(&format!("[capture]\nbudget = \"{text}\"\n"), Path::new("x"));
        let budget = loaded.unwrap().settings.capture.budget;
        assert!((budget.percent() - percent).abs() < 1e-9, "{text}");
    }
    for bad in [
        "0%",
        "-1%",
        "-0%",
        "1",
        "%",
        " %",
        "nan%",
        "inf%",
        "101%",
        "1e-9%",
        "1%%",
        "1 percent",
        "",
    ] {
        let text = format!("[capture]\nbudget = \"{bad}\"\n");
        let error = file::parse(&text, Path::new("x"));
        assert!(error.is_err(), "{bad} was accepted");
    }
    insta::assert_snapshot!(refused("[capture]\nbudget = \"1\"\n"), @r#"
    collector.toml: TOML parse error at line 2, column 10
      |
    2 | budget = "1"
      |          ^^^
    `1` is not a share of one core from "0.001%" to "100%", such as "1%" or "0.5 %"
    "#);
    insta::assert_snapshot!(refused("[capture]\nbudget = 1\n"), @r#"
    collector.toml: TOML parse error at line 2, column 10
      |
    2 | budget = 1
      |          ^
    invalid type: integer `1`, expected a share of one core from "0.001%" to "100%", such as "1%" or "0.5 %"
    "#);
}

#[test]
fn impossible_choices_are_refused() {
    for bad in [
        "[capture]\nprocess-pattern = \"(\"",
        "[capture]\nscope = \"all\"",
        "[capture.stacks]\nmax-parallel = 0",
        "[capture.stacks]\nnonblocking = \"false\"",
        "[capture]\nfocus-files = \"train.py\"",
        "[[enricher]]\nwasm = \"x.wasm\"",
        "[store.spool]\nmax-size = \"0 B\"",
    ] {
        assert!(
            file::parse(bad, Path::new("x")).is_err(),
            "{bad} was accepted"
        );
    }
}

#[test]
fn each_row_says_where_its_value_came_from() {
    let loaded = file::parse("[capture.stacks]\ntimeout = \"3s\"\n", Path::new("my.toml")).unwrap();
    let rows = loaded.rows();
    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap();
    assert_eq!(row("capture.stacks.timeout").origin, "my.toml");
    assert_eq!(row("capture.stacks.timeout").value, "3s");
    assert_eq!(row("capture.interval").origin, "default");
    assert_eq!(row("task.name").value, serde_json::Value::Null);
}
