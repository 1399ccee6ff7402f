//! What a storage service said when it failed: in one line, without secrets, and with what to do about it.

use std::error::Error;
use std::fmt;

use opendal::ErrorKind;

/// What a storage service, or the system, said when an operation failed. Displays as one line without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    cause: Cause,
    /// The service gave no reason, as in every answer to a question for an object's head.
    is_terse: bool,
    text: String,
}

/// What is behind a fault, where we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    BucketMissing,
    ClockSkew,
    CredentialsMissing,
    CredentialsWrong,
    Denied,
    DiskFull,
    ReadOnly,
    Region,
    Settings,
    Unknown,
    Unreachable,
}

/// Codes of the services for what a person can put right.
const CODES: [(&str, Cause); 19] = [
    ("AccessDenied", Cause::Denied),
    ("AuthenticationFailed", Cause::CredentialsWrong),
    ("AuthorizationFailure", Cause::Denied),
    ("AuthorizationHeaderMalformed", Cause::Region),
    ("AuthorizationPermissionMismatch", Cause::Denied),
    ("ContainerNotFound", Cause::BucketMissing),
    ("ExpiredToken", Cause::CredentialsWrong),
    ("IllegalLocationConstraintException", Cause::Region),
    ("InvalidAccessKeyId", Cause::CredentialsWrong),
    ("InvalidToken", Cause::CredentialsWrong),
    ("NoSuchBucket", Cause::BucketMissing),
    ("PermanentRedirect", Cause::Region),
    ("RequestExpired", Cause::ClockSkew),
    ("RequestTimeTooSkewed", Cause::ClockSkew),
    ("SignatureDoesNotMatch", Cause::CredentialsWrong),
    ("TemporaryRedirect", Cause::Region),
    ("401", Cause::CredentialsWrong),
    ("403", Cause::Denied),
    ("UnauthorizedAccess", Cause::Denied),
];

impl Fault {
    pub(crate) fn of(error: &opendal::Error) -> Self {
        let innermost = innermost(error);
        if let Some(of_system) = innermost.downcast_ref::<std::io::Error>() {
            return Self {
                cause: of_io(of_system),
                is_terse: false,
                text: of_system.to_string(),
            };
        }
        let message = error.message();
        let (code, words) = (field(message, "code"), field(message, "message"));
        if let (Some(code), Some(words)) = (&code, &words) {
            return Self {
                cause: of_code(code, words, error.kind()),
                is_terse: false,
                text: one_line(&format!("{code}: {words}")),
            };
        }
        let source = innermost.to_string();
        let text = match (error.source(), message.is_empty()) {
            (Some(_), false) => format!("{message}: {source}"),
            (Some(_), true) => source,
            (None, false) => message.to_owned(),
            (None, true) => format!("{}, without a reason", error.kind()),
        };
        Self {
            cause: of_words(&text, error.kind()),
            is_terse: error.source().is_none() && message.is_empty(),
            text: one_line(&without_queries(&text)),
        }
    }

    pub(crate) fn is_terse(&self) -> bool {
        self.is_terse
    }

    /// Returns what a person can do about it, as a sentence without its full stop.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self.cause {
            Cause::BucketMissing => "make the bucket or container, or correct its name in the URL",
            Cause::ClockSkew => {
                "set this machine's clock (NTP): services refuse requests minutes off"
            }
            Cause::CredentialsMissing => {
                "set credentials by the service's own conventions: docs/storage.md lists them"
            }
            Cause::CredentialsWrong => {
                "correct the key, token or profile in use; a token may have expired"
            }
            Cause::Denied => {
                "grant these credentials the permission, on the bucket and on the prefix: docs/storage.md lists them"
            }
            Cause::DiskFull => "free room on the disk, or name another with --store",
            Cause::ReadOnly => "name a directory that can be written with --store",
            Cause::Region => "name the bucket's own region: AWS_REGION, or ?region=… in the URL",
            Cause::Settings => "correct the URL's options; docs/storage.md lists them",
            Cause::Unreachable => {
                "check endpoint, name resolution, proxy and firewall from this machine"
            }
            Cause::Unknown => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Error for Fault {}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

fn of_io(error: &std::io::Error) -> Cause {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::StorageFull | Io::QuotaExceeded => Cause::DiskFull,
        Io::ReadOnlyFilesystem | Io::NotADirectory => Cause::ReadOnly,
        Io::PermissionDenied => Cause::Denied,
        Io::ConnectionRefused
        | Io::ConnectionReset
        | Io::HostUnreachable
        | Io::NetworkUnreachable
        | Io::TimedOut => Cause::Unreachable,
        _ => Cause::Unknown,
    }
}

fn of_code(code: &str, words: &str, kind: ErrorKind) -> Cause {
    if words.contains("Request date header too old") {
        return Cause::ClockSkew;
    }
    // Google has numbers for codes.
    let is_bucket = words.contains("bucket") && words.contains("not exist");
    if code == "404" && (is_bucket || kind == ErrorKind::NotFound) {
        return Cause::BucketMissing;
    }
    let known = CODES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| of_kind(kind), |(_, cause)| *cause)
}

fn of_words(text: &str, kind: ErrorKind) -> Cause {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["region is missing"]) {
        Cause::Region
    } else if has(&["credential", "no valid", "signing"]) && kind != ErrorKind::ConfigInvalid {
        Cause::CredentialsMissing
    } else if has(&[
        "dns error",
        "connect",
        "timeout",
        "certificate",
        "send http request",
    ]) {
        Cause::Unreachable
    } else {
        of_kind(kind)
    }
}

fn of_kind(kind: ErrorKind) -> Cause {
    match kind {
        // Of an object that is missing nobody speaks as a fault.
        ErrorKind::NotFound => Cause::BucketMissing,
        ErrorKind::PermissionDenied => Cause::Denied,
        ErrorKind::ConfigInvalid => Cause::Settings,
        _ => Cause::Unknown,
    }
}

/// Returns the value of `name` in a service's answer as `OpenDAL` prints it: `Name { code: "X", message: "…" }`.
fn field(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("{name}: "))?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return (!number.is_empty()).then_some(number);
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(value).filter(|value| !value.is_empty()),
            '\\' => match characters.next()? {
                'n' => value.push(' '),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// Takes the query off every URL in `text`: it may hold a signature or a token.
fn without_queries(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('?') {
        Some((before, _)) if before.contains("://") => format!("{before}?…"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: ErrorKind, message: &str) -> Fault {
        Fault::of(&opendal::Error::new(kind, message))
    }

    #[test]
    fn a_service_that_says_a_code_is_quoted_and_a_remedy_named() {
        let s3 = r#"S3Error { code: "InvalidAccessKeyId", message: "The AWS Access Key Id you \"gave\"\nis unknown", resource: "" }"#;
        let fault = fault(ErrorKind::PermissionDenied, s3);
        assert_eq!(
            fault.to_string(),
            "InvalidAccessKeyId: The AWS Access Key Id you \"gave\" is unknown"
        );
        assert!(fault.remedy().unwrap().starts_with("correct the key"));
    }

    #[test]
    fn what_a_person_can_put_right_is_known() {
        let cases = [
            (
                r#"S3Error { code: "NoSuchBucket", message: "none" }"#,
                "make the bucket",
            ),
            (
                r#"S3Error { code: "RequestTimeTooSkewed", message: "late" }"#,
                "set this machine's clock",
            ),
            (
                r#"S3Error { code: "AuthorizationHeaderMalformed", message: "x" }"#,
                "name the bucket's own region",
            ),
            (
                r#"AzblobError { code: "AuthorizationPermissionMismatch", message: "x" }"#,
                "grant these",
            ),
            (
                r#"GcsErrorResponse { error: GcsError { code: 401, message: "x", errors: [] } }"#,
                "correct the key",
            ),
        ];
        for (message, remedy) in cases {
            let fault = fault(ErrorKind::Unexpected, message);
            assert!(fault.remedy().unwrap().starts_with(remedy), "{fault:?}");
        }
    }

    #[test]
    fn signatures_in_urls_are_not_shown() {
        let fault = fault(
            ErrorKind::Unexpected,
            "cannot send to https://h/c/x?sig=hunter2 now",
        );
        assert_eq!(fault.to_string(), "cannot send to https://h/c/x?… now");
    }

    #[test]
    fn the_system_speaks_for_itself() {
        let error = opendal::Error::new(ErrorKind::Unexpected, "write failed")
            .set_source(std::io::Error::from_raw_os_error(28));
        let fault = Fault::of(&error);
        assert_eq!(fault.to_string(), "No space left on device (os error 28)");
        assert!(fault.remedy().unwrap().starts_with("free room"));
    }
}
