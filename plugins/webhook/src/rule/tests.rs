//! Episodes and messages.

use serde_json::Value;

use super::Later::{No, Perhaps};
use super::*;

fn fact(kind: &str, about: &str, severity: Severity) -> Fact {
    Fact {
        about: about.to_owned(),
        kind: kind.to_owned(),
        message: format!("{kind} of {about}"),
        severity,
        target: about.to_owned(),
    }
}

fn head() -> Head {
    Head {
        captured_at_ms: 1_796_002_400_123,
        node: "n0".to_owned(),
        sequence: 7,
        task: "train/1".to_owned(),
    }
}

fn settings(more: &str) -> Settings {
    Settings::parse(&format!("{{\"url\":\"https://a.example/\"{more}}}")).unwrap()
}

fn told(decision: &Decision) -> Vec<String> {
    decision
        .news
        .iter()
        .map(|fact| fact.message.clone())
        .collect()
}

#[test]
fn an_episode_is_told_once_and_again_only_after_its_end() {
    let settings = settings("");
    let there = [fact("missing-ranks", "group a", Severity::Error)];
    let mut memory = Memory::default();
    // Told, known, missing once, back: the same episode; missing twice: it has ended.
    let snapshots: [(&[Fact], usize); 7] = [
        (&there, 1),
        (&there, 0),
        (&[], 0),
        (&there, 0),
        (&[], 0),
        (&[], 0),
        (&there, 1),
    ];
    for (number, (facts, expected)) in snapshots.into_iter().enumerate() {
        let decision = memory.decide(facts, &settings);
        assert_eq!(decision.news.len(), expected, "snapshot {number}");
        memory = Memory::parse(&decision.memory.bytes());
    }
}

#[test]
fn what_is_not_done_yet_is_still_news() {
    let settings = settings("");
    let there = [fact("a", "x", Severity::Error)];
    let memory = Memory::default();
    assert_eq!(memory.decide(&there, &settings).news.len(), 1);
    assert_eq!(memory.decide(&there, &settings).news.len(), 1); // the memory was not kept
}

#[test]
fn only_what_was_chosen_is_told() {
    let facts = [
        fact("missing-ranks", "a", Severity::Warning),
        fact("missing-ranks", "b", Severity::Info),
        fact("gpu-lost", "c", Severity::Error),
    ];
    let chosen = |more: &str| told(&Memory::default().decide(&facts, &settings(more)));
    assert_eq!(chosen(""), ["missing-ranks of a", "gpu-lost of c"]);
    assert_eq!(chosen(",\"severity\":\"error\""), ["gpu-lost of c"]);
    assert_eq!(
        chosen(",\"severity\":\"info\",\"kinds\":[\"missing-ranks\"]"),
        ["missing-ranks of a", "missing-ranks of b"]
    );
}

#[test]
fn the_memory_is_bounded_and_what_it_cannot_keep_is_not_told() {
    let facts: Vec<Fact> = (0..2 * EPISODES)
        .map(|number| {
            fact(
                "k",
                &format!("{number} {}", "ä".repeat(400)),
                Severity::Error,
            )
        })
        .collect();
    let decision = Memory::default().decide(&facts, &settings(""));
    assert_eq!(decision.news.len(), EPISODES);
    assert!(decision.memory.bytes().len() < 1 << 20);
    let again = decision.memory.decide(&facts, &settings(""));
    assert_eq!((again.news.len(), again.told_before), (0, EPISODES));
    assert_eq!(Memory::parse(b"garbage"), Memory::default());
}

#[test]
fn without_a_template_the_body_is_a_document() {
    let facts = [fact("missing-ranks", "group a", Severity::Warning)];
    let news: Vec<&Fact> = facts.iter().collect();
    let body: Value = serde_json::from_str(&body(&head(), &news, &settings(""))).unwrap();
    let expected = json!({
        "captured_at": "2026-11-30T01:33:20Z",
        "findings": [{
            "kind": "missing-ranks", "message": "missing-ranks of group a", "severity": "warning", "target": "group a",
        }],
        "node": "n0",
        "sequence": 7,
        "severity": "warning",
        "summary": "warning missing-ranks: missing-ranks of group a",
        "task": "train/1",
    });
    assert_eq!(body, expected);
}

#[test]
fn a_template_makes_the_text_of_a_chat_in_which_nothing_is_a_mention() {
    let facts = [
        fact("b", "<!channel> & \"co\"", Severity::Warning),
        fact("a", "x", Severity::Error),
    ];
    let news: Vec<&Fact> = facts.iter().collect();
    let template = ",\"format\":\"slack\",\"template\":\"{severity} {count} [{kinds}] {task}@{node} #{sequence} {time}\\n{summary}\"";
    let body: Value = serde_json::from_str(&body(&head(), &news, &settings(template))).unwrap();
    assert_eq!(
        body["text"],
        "error 2 [a, b] train/1@n0 #7 2026-11-30T01:33:20Z\n\
         warning b: b of &lt;!channel&gt; &amp; \"co\"\nerror a: a of x"
    );
    let many: Vec<&Fact> = std::iter::repeat_n(&facts[1], 25).collect();
    assert!(summary(&many).ends_with("\nand 5 more"));
}

#[test]
fn dates_are_those_of_the_calendar() {
    let seconds = [0, 951_782_400, 951_868_800, 1_709_164_800, 4_102_444_799];
    let dates = seconds.map(|seconds| time(seconds * 1_000));
    assert_eq!(
        dates,
        [
            "1970-01-01T00:00:00Z",
            "2000-02-29T00:00:00Z",
            "2000-03-01T00:00:00Z",
            "2024-02-29T00:00:00Z",
            "2099-12-31T23:59:59Z",
        ]
    );
}

#[test]
fn answers_say_whether_to_try_again() {
    let judged = [200, 204, 302, 400, 403, 404, 408, 429, 500, 503].map(judge);
    let expected = [
        None,
        None,
        Some(No),
        Some(No),
        Some(No),
        Some(No),
        Some(Perhaps),
        Some(Perhaps),
        Some(Perhaps),
        Some(Perhaps),
    ];
    assert_eq!(judged, expected);
    assert_eq!(retry_after_ms(" 3 "), Some(3_000));
    assert_eq!(retry_after_ms("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    assert_eq!(retry_after_ms("99999999"), Some(u32::MAX));
}
