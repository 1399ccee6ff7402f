//! Where a store is: a directory, or a URL of a storage service. Parsing touches nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::StoreError;
use crate::options::{OptionName, options, percent_decoded};

/// Where a store is. Displays as the directory, or as the URL without user name, password and query, which may
/// hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Location(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Directory(PathBuf),
    Memory,
    Bucket(Bucket),
}

/// A bucket or container, and where in it the store begins.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) service: Service,
    pub(crate) name: String,
    /// Without slashes at its ends; empty for the whole bucket.
    pub(crate) root: String,
    /// Known to the service, each by its one name.
    pub(crate) options: BTreeMap<&'static str, String>,
}

/// A storage service that is reached by a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3 and what speaks its protocol: `s3://BUCKET/PREFIX`.
    S3,
    /// Google Cloud Storage: `gs://BUCKET/PREFIX`, `gcs://…`.
    Gcs,
    /// Azure Blob Storage: `az://CONTAINER/PREFIX`, `azblob://…`.
    Azblob,
}

impl Service {
    fn of(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "s3" => Self::S3,
            "gs" | "gcs" => Self::Gcs,
            "az" | "azblob" => Self::Azblob,
            _ => return None,
        })
    }

    /// Returns what stands before `://`.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azblob => "az",
        }
    }
}

impl Location {
    /// Parses a directory, relative to `working_directory`, or a URL such as `fs:///var/taskscope`,
    /// `s3://bucket/prefix?region=eu-west-1` or `memory:`.
    pub fn parse(text: &str, working_directory: &Path) -> Result<Self, StoreError> {
        let refuse = |reason: String| Err(refusal(text, reason));
        if text.is_empty() {
            return refuse("it is empty; write a directory or a URL".to_owned());
        }
        if text.contains('\0') {
            return refuse("it contains a NUL character".to_owned());
        }
        if text == "memory:" {
            return Ok(Self(Kind::Memory));
        }
        let Some((scheme, rest)) = split_url(text) else {
            return Ok(Self::of_directory(&working_directory.join(text)));
        };
        match scheme.as_str() {
            "memory" => Ok(Self(Kind::Memory)),
            "fs" | "file" if !rest.starts_with('/') => {
                refuse("a directory URL has three slashes, such as fs:///var/taskscope".to_owned())
            }
            "fs" | "file" if rest.contains('?') => {
                refuse("a directory URL takes no query".to_owned())
            }
            "fs" | "file" => Ok(Self::of_directory(Path::new(rest))),
            other => match Service::of(other) {
                Some(service) => Bucket::parse(service, rest)
                    .map(|bucket| Self(Kind::Bucket(bucket)))
                    .map_err(|reason| refusal(text, reason)),
                None => refuse(format!(
                    "there is no storage service `{other}`; there are directories (a path or fs:///path), \
                     s3://, gs://, az:// and memory:"
                )),
            },
        }
    }

    pub(crate) fn memory() -> Self {
        Self(Kind::Memory)
    }

    /// Returns the directory, where the store is one; a spool can lie in it.
    pub fn directory(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Directory(path) => Some(path),
            Kind::Memory | Kind::Bucket(_) => None,
        }
    }

    /// Returns the storage service, where the store is in one.
    pub fn service(&self) -> Option<Service> {
        self.bucket().map(|bucket| bucket.service)
    }

    /// Returns the value of an option of the URL, or one that was added.
    pub fn option(&self, name: &str) -> Option<&str> {
        let value = self.bucket()?.options.get(name)?;
        Some(value)
    }

    /// Adds an option unless the URL has it: what the service's own conventions say, such as an environment
    /// variable. A name that the service does not have is left out.
    #[must_use]
    pub fn or_option(mut self, name: &str, value: Option<String>) -> Self {
        if let (Kind::Bucket(bucket), Some(value)) = (&mut self.0, value)
            && let Some(known) = OptionName::of(bucket.service, name)
        {
            bucket.options.entry(known.name).or_insert(value);
        }
        self
    }

    /// Returns the URL with its options but without its secrets; it parses to the same place.
    pub fn without_secrets(&self) -> String {
        let Some(bucket) = self.bucket() else {
            return self.to_string();
        };
        let shown = bucket.options.iter().filter(|(name, _)| {
            OptionName::of(bucket.service, name).is_some_and(|option| !option.is_secret)
        });
        let query: Vec<String> = shown
            .map(|(name, value)| {
                format!("{name}={}", value.replace('%', "%25").replace('&', "%26"))
            })
            .collect();
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{self}{separator}{}", query.join("&"))
    }

    /// Returns a name for a local directory about this store: readable, and another one for another store.
    pub fn file_name(&self) -> String {
        let text = self.without_secrets();
        // FNV-1a, because the name has to be the same in every version.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let plain = self.to_string().replace("://", "-");
        let plain: String = plain
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
            .take(60)
            .collect();
        format!("{}-{hash:016x}", plain.trim_matches('-'))
    }

    pub(crate) fn bucket(&self) -> Option<&Bucket> {
        match &self.0 {
            Kind::Bucket(bucket) => Some(bucket),
            Kind::Directory(_) | Kind::Memory => None,
        }
    }

    /// Drops `.` segments; `..` stays, because what it means depends on links.
    fn of_directory(path: &Path) -> Self {
        let parts = path.components();
        Self(Kind::Directory(
            parts.filter(|part| *part != Component::CurDir).collect(),
        ))
    }
}

impl Bucket {
    /// Parses what stands after `SCHEME://`.
    fn parse(service: Service, rest: &str) -> Result<Self, String> {
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, root) = place.split_once('/').unwrap_or((place, ""));
        if name.contains('@') {
            let example = match service {
                Service::S3 => "access_key_id=…&secret_access_key=…",
                Service::Gcs => "credential_path=…",
                Service::Azblob => "account_name=…&account_key=…",
            };
            return Err(format!(
                "credentials do not stand before an @; leave them to the environment, or write ?{example}"
            ));
        }
        if name.is_empty() {
            let scheme = service.scheme();
            return Err(format!(
                "it names no bucket; write {scheme}://BUCKET/PREFIX"
            ));
        }
        Ok(Self {
            service,
            name: name.to_owned(),
            root: percent_decoded(root).trim_matches('/').to_owned(),
            options: options(service, query)?,
        })
    }
}

/// Names the text without what may be secret in it.
fn refusal(text: &str, reason: String) -> StoreError {
    let shown = text.split('?').next().unwrap_or_default();
    let text = match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, after))) => format!("{scheme}://{after}"),
        _ => shown.to_owned(),
    };
    StoreError::Location { text, reason }
}

/// Splits `SCHEME://REST`; anything else is a path.
fn split_url(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let begins_well = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    let goes_on_well = scheme
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "+.-".contains(character));
    (begins_well && goes_on_well).then(|| (scheme.to_ascii_lowercase(), rest))
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Directory(path) => write!(formatter, "{}", path.display()),
            Kind::Memory => formatter.write_str("memory:"),
            Kind::Bucket(Bucket {
                service,
                name,
                root,
                ..
            }) => {
                let separator = if root.is_empty() { "" } else { "/" };
                write!(formatter, "{}://{name}{separator}{root}", service.scheme())
            }
        }
    }
}

/// As it is displayed, so that no secret reaches a log.
impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text, Path::new("/srv")).unwrap()
    }

    fn refused(text: &str) -> String {
        let error = Location::parse(text, Path::new("/srv")).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_relative_directory_lies_in_the_working_directory() {
        assert_eq!(
            parse("./.taskscope").directory(),
            Some(Path::new("/srv/.taskscope"))
        );
        assert_eq!(
            parse("/var/a:b//c").directory(),
            Some(Path::new("/var/a:b/c"))
        );
        assert_eq!(parse("../up").to_string(), "/srv/../up");
    }

    #[test]
    fn a_directory_url_is_a_directory() {
        assert_eq!(parse("fs:///data/x"), parse("/data/x"));
        assert_eq!(parse("FILE:///data/x"), parse("/data/x"));
        for bad in ["fs://data/x", "fs:///data?root=x", ""] {
            assert!(
                Location::parse(bad, Path::new("/")).is_err(),
                "{bad} was accepted"
            );
        }
    }

    #[test]
    fn buckets_have_several_schemes_and_one_form() {
        assert_eq!(parse("s3://bucket").to_string(), "s3://bucket");
        assert_eq!(parse("GCS://bucket/a%20b/"), parse("gs://bucket/a b"));
        assert_eq!(parse("azblob://box/p"), parse("az://box/p"));
        assert_eq!(parse("memory:"), parse("memory://"));
        assert_eq!(parse("az://box/p").service(), Some(Service::Azblob));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        assert_eq!(
            refused("s3://bucket/x?regoin=eu&secret_access_key=hunter2"),
            "`s3://bucket/x` names no store: s3:// has no option `regoin`; it takes access_key_id, \
             checksum_algorithm, default_acl, default_storage_class, disable_config_load, disable_ec2_metadata, \
             enable_request_payer, enable_virtual_host_style, endpoint, external_id, profile, region, role_arn, \
             role_session_name, secret_access_key, server_side_encryption, server_side_encryption_aws_kms_key_id, \
             session_token and skip_signature"
        );
        assert!(refused("s3:///x").contains("it names no bucket; write s3://BUCKET/PREFIX"));
        let text = refused("s3://me:hunter2@bucket/prefix");
        assert!(
            text.starts_with("`s3://bucket/prefix` names no store"),
            "{text}"
        );
        let text = refused("gs://b?skip_signature=perhaps");
        assert!(text.contains("`skip_signature` is true or false"), "{text}");
        let text = refused("hdfs://b");
        assert!(
            text.contains("there is no storage service `hdfs`"),
            "{text}"
        );
    }

    #[test]
    fn secrets_of_a_url_are_not_shown() {
        let text =
            "s3://bucket/prefix?secret_access_key=hunter2&region=eu&endpoint=http://h/?a%26b";
        let location = parse(text);
        assert_eq!(location.to_string(), "s3://bucket/prefix");
        assert_eq!(format!("{location:?}"), "Location(s3://bucket/prefix)");
        let plain = location.without_secrets();
        assert_eq!(
            plain,
            "s3://bucket/prefix?endpoint=http://h/?a%26b&region=eu"
        );
        assert_eq!(parse(&plain).without_secrets(), plain);
        assert_eq!(location.option("secret_access_key"), Some("hunter2"));
    }

    #[test]
    fn the_url_goes_before_what_the_environment_says() {
        let location = parse("s3://b?region=eu")
            .or_option("region", Some("us".to_owned()))
            .or_option("endpoint", Some("http://h".to_owned()))
            .or_option("account_key", Some("of another service".to_owned()));
        assert_eq!(
            location.without_secrets(),
            "s3://b?endpoint=http://h&region=eu"
        );
        assert_eq!(location.option("account_key"), None);
    }

    #[test]
    fn stores_that_differ_have_directories_that_differ() {
        let names = [
            "s3://b/p",
            "s3://b/p?endpoint=http://h",
            "s3://b-p",
            "gs://b/p",
        ];
        let names: std::collections::BTreeSet<String> =
            names.iter().map(|text| parse(text).file_name()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(
            names.iter().any(|name| name.starts_with("gs-b-p-")),
            "{names:?}"
        );
        let (with, without) = ("s3://b/p?secret_access_key=x", "s3://b/p");
        assert_eq!(parse(with).file_name(), parse(without).file_name());
    }
}
