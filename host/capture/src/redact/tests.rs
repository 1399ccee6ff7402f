//! What is redacted, and what must not be.

use std::collections::BTreeMap;

use model::Redaction;
use proptest::prelude::*;
use regex::Regex;

use super::Redactor;

fn redacted(arguments: &[&str]) -> (Vec<String>, Vec<Redaction>) {
    let mut arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    let redactions = Redactor::new(&[]).arguments(&mut arguments);
    (arguments, redactions)
}

fn pattern_at<'a>(redactions: &'a [Redaction], place: &str) -> Option<&'a str> {
    let at = redactions
        .iter()
        .find(|redaction| redaction.place == place)?;
    Some(&at.pattern)
}

#[test]
fn only_the_secret_part_goes_and_the_place_is_said() {
    let (arguments, redactions) = redacted(&[
        "python",
        "train.py",
        "--password=a b=c",
        "--api-key",
        "xyz-123",
        "--lr",
        "0.1",
        "hydra.token=abcdefgh",
    ]);
    assert_eq!(
        arguments,
        [
            "python",
            "train.py",
            "--password=[redacted]",
            "--api-key",
            "[redacted]",
            "--lr",
            "0.1",
            "hydra.token=[redacted]"
        ]
    );
    assert_eq!(redactions.len(), 3);
    assert_eq!(pattern_at(&redactions, "cmdline/2"), Some("password"));
    assert_eq!(pattern_at(&redactions, "cmdline/4"), Some("key"));
    assert_eq!(pattern_at(&redactions, "cmdline/7"), Some("token"));
}

#[test]
fn forms_that_name_themselves_are_found_in_any_argument() {
    let long = "A1b2C3d4E5f6G7h8I9j0K1l2";
    for (pattern, secret) in [
        ("aws-access-key", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("github-token", format!("ghp_{long}")),
        ("github-token", format!("github_pat_{long}")),
        ("gitlab-token", format!("glpat-{long}")),
        ("slack-token", "xoxb-123456789-abcdef".to_owned()),
        ("huggingface-token", format!("hf_{long}")),
        ("api-key", format!("sk-{long}")),
        ("api-key", format!("sk-ant-api03-{long}-x_y")),
        ("api-key", format!("sk-proj-{long}")),
        (
            "jwt",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1".to_owned(),
        ),
        (
            "private-key",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----".to_owned(),
        ),
        (
            "private-key",
            "-----BEGIN PRIVATE KEY-----\nMIIEow cut".to_owned(),
        ),
    ] {
        let (arguments, redactions) = redacted(&["x", &format!("note:{secret}")]);
        assert_eq!(arguments[1], "note:[redacted]", "{secret}");
        assert_eq!(pattern_at(&redactions, "cmdline/1"), Some(pattern));
    }
}

#[test]
fn urls_keep_everything_but_their_secret() {
    for (url, kept) in [
        (
            "postgres://me:p@ss@db:5432/x",
            "postgres://me:[redacted]@db:5432/x",
        ),
        ("https://:pw@host/a", "https://:[redacted]@host/a"),
        (
            "https://a.blob/x?sv=1&sig=ab%2Bc&se=2",
            "https://a.blob/x?sv=1&sig=[redacted]&se=2",
        ),
        (
            "https://h/x?token=abcdefgh&n=1",
            "https://h/x?token=[redacted]&n=1",
        ),
        ("tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500"),
        ("s3://bucket/key@1:2/x", "s3://bucket/key@1:2/x"),
    ] {
        assert_eq!(redacted(&[url]).0, [kept]);
    }
}

#[test]
fn headers_lose_their_credentials() {
    for (header, kept) in [
        (
            "Authorization: Bearer abcdefgh.ijk",
            "Authorization: Bearer [redacted]",
        ),
        (
            "Authorization: Basic dXNlcjpw",
            "Authorization: Basic [redacted]",
        ),
        ("X-Api-Key: abcdef", "X-Api-Key: [redacted]"),
        ("bearer abcdefgh12", "bearer [redacted]"),
    ] {
        assert_eq!(redacted(&["curl", "-H", header]).0[2], kept);
    }
}

#[test]
fn a_script_in_one_argument_keeps_its_other_words() {
    let (arguments, _) = redacted(&[
        "bash",
        "-c",
        "export API_KEY='a b' DB_PASSWORD=pw; python train.py --token abcdefgh --lr 0.1",
    ]);
    assert_eq!(
        arguments[2],
        "export API_KEY='[redacted]' DB_PASSWORD=[redacted]; python train.py --token [redacted] --lr 0.1"
    );
}

#[test]
fn a_title_in_one_argument_is_read_like_a_command() {
    let (arguments, redactions) = redacted(&["worker --api-key abcdef --rank 3"]);
    assert_eq!(arguments, ["worker --api-key [redacted] --rank 3"]);
    assert_eq!(pattern_at(&redactions, "cmdline/0"), Some("key"));
}

#[test]
fn json_arguments_keep_their_shape() {
    let (arguments, _) = redacted(&[r#"{"api_key": "abc", "lr": 0.1, "max_tokens": 512}"#]);
    assert_eq!(
        arguments,
        [r#"{"api_key": "[redacted]", "lr": 0.1, "max_tokens": 512}"#]
    );
}

#[test]
fn ordinary_training_commands_stay_as_they_are() {
    for command in [
        "python -u train.py --tokenizer=gpt2 --max-tokens 512 --num-tokens 4096 --key-frames 12 --lr=3e-4",
        "torchrun --nproc-per-node 8 --rdzv-endpoint=host:29500 --rdzv-id 17 train.py --pad-token <pad>",
        "python -m vllm.entrypoints --model org/name --max-num-batched-tokens=8192 --served-model-name x",
        "python train.py trainer.max_steps=10 data.tokenizer.path=/x model.num_key_value_heads=8 +exp=a/b",
        "python train.py --eos_token </s> --additional-special-tokens a b --sort-key loss --seed 1",
        "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)",
        "git clone git@github.com:org/name.git --depth 1",
        "python run.py --name sk-learn-baseline-v2-long-name --use-auth-token --input data/secretary.csv",
        "python x.py --commit 0123456789abcdef0123456789abcdef01234567 --password-file /run/x",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let (arguments, redactions) = redacted(&words);
        assert_eq!(arguments.join(" "), command);
        assert_eq!(redactions, [], "{command}");
        let (arguments, redactions) = redacted(&[command]);
        assert_eq!(arguments, [command]);
        assert_eq!(redactions, [], "{command}");
    }
}

#[test]
fn an_option_without_a_value_leaves_the_next_option_alone() {
    let (arguments, redactions) = redacted(&["x", "--token", "--verbose", "--password"]);
    assert_eq!(arguments, ["x", "--token", "--verbose", "--password"]);
    assert_eq!(redactions, []);
}

#[test]
fn variables_lose_what_their_name_or_form_gives_away() {
    let mut variables = BTreeMap::from(
        [
            ("NCCL_DEBUG", "INFO"),
            ("TORCH_API_KEY", "abc"),
            ("TORCHELASTIC_STORE", "redis://u:pw@h"),
            ("TORCH_TOKEN", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let redactions = Redactor::new(&[]).variables(&mut variables);
    assert_eq!(variables["NCCL_DEBUG"], "INFO");
    assert_eq!(variables["TORCH_API_KEY"], "[redacted]");
    assert_eq!(variables["TORCHELASTIC_STORE"], "redis://u:[redacted]@h");
    assert_eq!(redactions.len(), 2);
    let place = "distributed_environment/TORCH_API_KEY";
    assert_eq!(pattern_at(&redactions, place), Some("key"));
}

#[test]
fn settings_add_patterns_whole_or_by_group() {
    let added = [
        Regex::new("internal-[0-9]+").unwrap(),
        Regex::new("badge:([a-z]+)").unwrap(),
    ];
    let mut arguments = vec!["internal-17 badge:abc".to_owned()];
    let redactions = Redactor::new(&added).arguments(&mut arguments);
    assert_eq!(arguments, ["[redacted] badge:[redacted]"]);
    let patterns: Vec<_> = redactions
        .iter()
        .map(|redaction| redaction.pattern.as_str())
        .collect();
    assert_eq!(patterns, ["setting-0", "setting-1"]);
}

proptest! {
    #[test]
    fn redacting_twice_changes_nothing_more(texts in proptest::collection::vec("[ -~]{0,40}", 0..6)) {
        let mut once = texts.clone();
        Redactor::new(&[]).arguments(&mut once);
        let mut twice = once.clone();
        Redactor::new(&[]).arguments(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_password_never_survives(secret in "[A-Za-z0-9]{6,20}", other in "[a-z]{1,5}") {
        let secret = secret + "zq";
        let mut arguments = vec![other, "--password".to_owned(), secret.clone()];
        Redactor::new(&[]).arguments(&mut arguments);
        prop_assert!(!arguments.join(" ").contains(&secret));
    }
}

#[test]
fn what_a_redactor_has_seen_before_it_redacts_as_if_it_had_not() {
    let redactor = Redactor::new(&[]);
    let texts = [
        "train.py",
        "token=abcdefgh",
        "--lr",
        "0.1",
        "train.py",
        "token=abcdefgh",
    ];
    for _ in 0..2 {
        let mut arguments = texts.map(str::to_owned).to_vec();
        let mut expected = arguments.clone();
        let redactions = redactor.arguments(&mut arguments);
        assert_eq!(redactions, Redactor::new(&[]).arguments(&mut expected));
        assert_eq!(arguments, expected);
        assert_eq!(arguments[5], "token=[redacted]");
    }
}
