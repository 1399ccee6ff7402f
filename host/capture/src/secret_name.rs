//! Does the name of an option or a variable say that its value is a secret?
//!
//! A leaked password is worse than a hidden argument, but `--max-tokens 512`, `--pad-token "<pad>"` and `--sort-key`
//! are what a reader of a snapshot looks for: only the last word of a name makes it a token or a key.

/// Last words that say that the value is about a secret, but is none.
const ABOUT: [&str; 21] = [
    "algorithm",
    "dir",
    "enabled",
    "env",
    "expiry",
    "field",
    "file",
    "hash",
    "len",
    "length",
    "manager",
    "max",
    "min",
    "name",
    "path",
    "policy",
    "prompt",
    "stdin",
    "store",
    "ttl",
    "type",
];

/// First words of flags, which have no value.
const FLAGS: [&str; 12] = [
    "allow", "check", "disable", "enable", "hide", "mask", "no", "require", "show", "skip", "use",
    "with",
];

/// Words before `token` that make it one of a tokenizer.
const TOKENIZER: [&str; 42] = [
    "add",
    "assistant",
    "audio",
    "begin",
    "beginning",
    "bos",
    "bot",
    "cls",
    "current",
    "decoder",
    "end",
    "eod",
    "eol",
    "eom",
    "eos",
    "eot",
    "fim",
    "first",
    "image",
    "last",
    "mask",
    "middle",
    "new",
    "next",
    "pad",
    "padding",
    "per",
    "prefix",
    "query",
    "sep",
    "single",
    "special",
    "start",
    "stop",
    "suffix",
    "system",
    "text",
    "think",
    "trigger",
    "unk",
    "video",
    "word",
];

/// Words before `key` that make it a secret.
const KEYS: [&str; 31] = [
    "access",
    "account",
    "admin",
    "anthropic",
    "api",
    "app",
    "auth",
    "aws",
    "azure",
    "client",
    "consumer",
    "deploy",
    "encryption",
    "hf",
    "license",
    "master",
    "openai",
    "openrouter",
    "private",
    "project",
    "secret",
    "service",
    "session",
    "shared",
    "signing",
    "ssh",
    "storage",
    "subscription",
    "symmetric",
    "wandb",
    "webhook",
];

/// Words before `tokens`, `pass` and `pwd` that make it a secret.
const ACCOUNTS: [&str; 14] = [
    "access", "api", "auth", "bearer", "database", "db", "http", "mysql", "postgres", "proxy",
    "redis", "root", "smtp", "user",
];

/// Words that are a secret wherever they stand in a name.
const ANYWHERE: [&str; 9] = [
    "accesskey",
    "apikey",
    "credential",
    "credentials",
    "passphrase",
    "privatekey",
    "secret",
    "secretkey",
    "secrets",
];

/// Returns the name of the pattern if the option `name` says that `value` is a secret.
pub(crate) fn of_option(name: &str, value: &str) -> Option<&'static str> {
    let words = words(name);
    let last = words.last()?.as_str();
    let before = words.len().checked_sub(2).map_or("", |index| &words[index]);
    if value.is_empty() || ABOUT.contains(&last) || is_flag(&words) {
        return None;
    }
    if words.iter().any(|word| is_password(word)) || last == "pw" {
        return Some("password");
    }
    if matches!(last, "pass" | "pwd") && (words.len() == 1 || ACCOUNTS.contains(&before)) {
        return (!is_path(value)).then_some("password");
    }
    if matches!(last, "authtoken" | "accesstoken" | "bearertoken")
        || (last == "token" && !TOKENIZER.contains(&before))
        || (last == "tokens" && ACCOUNTS.contains(&before))
    {
        return (!is_plain(value)).then_some("token");
    }
    if words.iter().any(|word| ANYWHERE.contains(&word.as_str())) {
        return (!is_switch(value)).then_some("secret");
    }
    if last == "key" && KEYS.contains(&before) {
        return (!is_plain(value) && !is_path(value)).then_some("key");
    }
    None
}

/// Returns the name of the pattern if the environment variable `name` says that its value is a secret.
pub(crate) fn of_variable(name: &str) -> Option<&'static str> {
    for word in words(name) {
        match word.as_str() {
            "key" => return Some("key"),
            "token" => return Some("token"),
            "pass" | "pwd" => return Some("password"),
            word if ANYWHERE.contains(&word) => return Some("secret"),
            word if is_password(word) => return Some("password"),
            _ => {}
        }
    }
    None
}

fn is_password(word: &str) -> bool {
    ["password", "passwords", "passwd", "sshpass"]
        .iter()
        .any(|end| word.ends_with(end))
}

fn is_flag(words: &[String]) -> bool {
    words.len() > 1 && FLAGS.contains(&words[0].as_str())
}

/// Numbers, switches, and special tokens such as `<pad>`, `[MASK]` and `<|endoftext|>`.
fn is_plain(value: &str) -> bool {
    let bracketed = (value.starts_with('<') && value.ends_with('>'))
        || (value.starts_with('[') && value.ends_with(']'));
    bracketed || is_switch(value) || (value.len() < 8 && value.parse::<f64>().is_ok())
}

fn is_switch(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(
        value.as_str(),
        "true" | "false" | "yes" | "no" | "none" | "null" | "0" | "1"
    )
}

fn is_path(value: &str) -> bool {
    ["/", "./", "../", "~/"]
        .iter()
        .any(|start| value.starts_with(start))
        || [".pem", ".key", ".json", ".txt"]
            .iter()
            .any(|end| value.ends_with(end))
}

/// Splits `api-key`, `API_KEY`, `trainer.apiKey` into lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for character in name.chars() {
        let starts_word = character.is_ascii_uppercase() && previous.is_ascii_lowercase();
        if starts_word || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if character.is_alphanumeric() {
            let word = words.last_mut().expect("there is always one word");
            word.push(character.to_ascii_lowercase());
        }
        previous = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "password",
            "db-password",
            "PGPASSWORD",
            "MYSQL_PWD",
            "passwd",
            "token",
            "hf-token",
            "auth_token",
            "access-token",
            "accessToken",
            "api-key",
            "API_KEY",
            "apikey",
            "trainer.api_key",
            "wandb-api-key",
            "aws-secret-access-key",
            "aws_secret_access_key",
            "secret",
            "client-secret",
            "X-Api-Key",
            "SECRET",
            "github.token",
            "credentials",
            "push_to_hub_token",
            "storage-key",
            "api_tokens",
            "db-pass",
        ] {
            assert!(of_option(name, "xyzzy-4711").is_some(), "{name}");
        }
    }

    #[test]
    fn names_of_ordinary_training_arguments_are_not() {
        for (name, value) in [
            ("tokenizer", "gpt2"),
            ("tokenizer-path", "/x"),
            ("max-tokens", "512"),
            ("num-tokens", "4096"),
            ("max_new_tokens", "128"),
            ("pad-token", "pad"),
            ("eos_token", "</s>"),
            ("key-frames", "12"),
            ("sort-key", "loss"),
            ("label-key", "y"),
            ("key", "image"),
            ("image_key", "jpg"),
            ("token", "<pad>"),
            ("special-tokens", "a,b"),
            ("use-auth-token", "true"),
            ("no-password", "x"),
            ("password-file", "/run/x"),
            ("token-dropout", "0.1"),
            ("secret-name", "hf"),
            ("two-pass", "yes"),
            ("bypass", "x"),
            ("monkey", "x"),
            ("tokens-per-batch", "4096"),
            ("author", "me"),
            ("seed", "1"),
            ("ssl-key", "server.pem"),
            ("private-key", "/home/me/id"),
            ("keyword", "x"),
            ("compass", "north"),
            ("pwd", "/home"),
            ("image-token-index", "32000"),
            ("num_key_value_heads", "8"),
            ("token", "100"),
        ] {
            assert_eq!(of_option(name, value), None, "{name}={value}");
        }
    }

    #[test]
    fn variables_are_judged_by_any_of_their_words() {
        for name in [
            "TORCH_API_KEY",
            "NCCL_TOKEN_FILE",
            "RAY_SECRET",
            "OMP_PASSWORD",
        ] {
            assert!(of_variable(name).is_some(), "{name}");
        }
        for name in [
            "NCCL_DEBUG",
            "TORCH_TOKENS",
            "OMP_NUM_THREADS",
            "TORCH_KEYS",
        ] {
            assert_eq!(of_variable(name), None, "{name}");
        }
    }
}
