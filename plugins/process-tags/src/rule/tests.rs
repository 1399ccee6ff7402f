//! Tags on hand-made processes.

use super::*;

fn rules(config: &str) -> Rules {
    Rules::parse(config).unwrap()
}

fn refusal(config: &str) -> String {
    Rules::parse(config).unwrap_err()
}

fn facts(name: &str, exe: &str, command: &str) -> Facts {
    Facts {
        command: command.to_owned(),
        exe: exe.to_owned(),
        matches_pattern: false,
        name: name.to_owned(),
    }
}

#[test]
fn without_settings_only_the_pattern_tags() {
    let rules = rules("{}");
    let process = facts("python3", "", "python3 train.py");
    assert!(rules.tags(&process).is_empty());
    let matched = Facts {
        matches_pattern: true,
        ..process
    };
    assert_eq!(rules.tags(&matched), ["process-pattern"]);
}

#[test]
fn a_rule_matches_when_each_of_its_expressions_does() {
    let rules = rules(
        r#"{"rules":[
            {"tag":"loader","command":"DataLoader","name":"^pt_"},
            {"tag":"compiler","exe":"/(nvcc|ptxas|cc1plus)$"},
            {"tag":"any-pt","name":"^pt_"}
        ]}"#,
    );
    let both = facts("pt_main", "/usr/bin/python3", "python3 DataLoader");
    assert_eq!(rules.tags(&both), ["loader", "any-pt"]);
    let name_only = facts("pt_main", "/usr/bin/python3", "python3 train.py");
    assert_eq!(rules.tags(&name_only), ["any-pt"]);
    let compiler = facts("nvcc", "/usr/local/cuda/bin/nvcc", "nvcc -c k.cu");
    assert_eq!(rules.tags(&compiler), ["compiler"]);
    assert!(rules.tags(&facts("", "", "")).is_empty());
}

#[test]
fn two_rules_with_one_tag_give_it_once() {
    let rules = rules(r#"{"rules":[{"tag":"a","name":"x"},{"tag":"a","command":"x"}]}"#);
    assert_eq!(rules.tags(&facts("x", "", "x")), ["a"]);
}

#[test]
fn what_is_wrong_with_the_settings_is_said_with_its_place() {
    assert_eq!(
        refusal(r#"{"rules":[{"tag":"ok","name":"a"},{"tag":"b","exe":"["}]}"#),
        "rules[1].exe: `[` is no regular expression: found unclosed character class"
    );
    assert_eq!(
        refusal(r#"{"rules":[{"tag":"all"}]}"#),
        "rules[0] (`all`) would match everything; give `command`, `exe` or `name` a regular expression"
    );
    assert_eq!(
        refusal(r#"{"rules":[{"tag":"","name":"a"}]}"#),
        "rules[0].tag: 0 bytes; give 1 to 64"
    );
    assert!(refusal(r#"{"rules":[{"name":"a"}]}"#).contains("missing field `tag`"));
    assert!(refusal(r#"{"patern":"a"}"#).contains("unknown field `patern`"));
}

#[test]
fn a_process_that_is_as_it_was_is_not_matched_again() {
    let of = |name: &str| facts(name, "", name);
    let named = rules(r#"{"rules":[{"tag":"a","name":"^a"}]}"#);
    let (mut first, none) = (Tagged::default(), Tagged::default());
    assert_eq!(*first.tags(of("a1"), &named, &none), ["a".to_owned()]);
    assert!(first.tags(of("b"), &named, &none).is_empty());
    // Rules that match nothing show which tags are those of before.
    let (silent, mut second) = (rules("{}"), Tagged::default());
    assert_eq!(*second.tags(of("a1"), &silent, &first), ["a".to_owned()]);
    assert!(second.tags(of("a2"), &silent, &first).is_empty());
    // What a snapshot no longer has is forgotten.
    assert_eq!(second.0.len(), 2);
}
