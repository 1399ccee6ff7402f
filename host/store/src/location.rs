//! Where a store is: a directory or an `OpenDAL` URL. Parsing touches nothing.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::StoreError;

/// Where a store is. Displays as the directory, or as the URL without user name, password and query, which may
/// hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Directory(PathBuf),
    Url { scheme: String, rest: String },
}

impl Location {
    /// Parses a directory, relative to `working_directory`, or a URL such as `fs:///var/taskscope` or
    /// `s3://bucket/prefix`.
    pub fn parse(text: &str, working_directory: &Path) -> Result<Self, StoreError> {
        let refuse = |reason| {
            Err(StoreError::Location {
                text: text.to_owned(),
                reason,
            })
        };
        if text.is_empty() {
            return refuse("it is empty; write a directory or a URL");
        }
        if text.contains('\0') {
            return refuse("it contains a NUL character");
        }
        let Some((scheme, rest)) = split_url(text) else {
            return Ok(Self::of_directory(&working_directory.join(text)));
        };
        if scheme != "fs" && scheme != "file" {
            return Ok(Self(Kind::Url { scheme, rest }));
        }
        if !rest.starts_with('/') {
            return refuse("a directory URL has three slashes, such as fs:///var/taskscope");
        }
        if rest.contains('?') {
            return refuse("a directory URL takes no query");
        }
        Ok(Self::of_directory(Path::new(&rest)))
    }

    /// Returns the directory, where the store is one; a spool can lie in it.
    pub fn directory(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Directory(path) => Some(path),
            Kind::Url { .. } => None,
        }
    }

    /// Returns what stands before `://`; `fs` for a directory.
    pub fn scheme(&self) -> &str {
        match &self.0 {
            Kind::Directory(_) => "fs",
            Kind::Url { scheme, .. } => scheme,
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

/// Splits `SCHEME://REST`; anything else is a path.
fn split_url(text: &str) -> Option<(String, String)> {
    let (scheme, rest) = text.split_once("://")?;
    let begins_well = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    let goes_on_well = scheme
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "+.-".contains(character));
    (begins_well && goes_on_well).then(|| (scheme.to_ascii_lowercase(), rest.to_owned()))
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Directory(path) => write!(formatter, "{}", path.display()),
            Kind::Url { scheme, rest } => {
                let shown = rest.split(['?', '#']).next().unwrap_or_default();
                let (authority, path) = shown.split_at(shown.find('/').unwrap_or(shown.len()));
                let host = authority.rsplit('@').next().unwrap_or_default();
                write!(formatter, "{scheme}://{host}{path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text, Path::new("/srv")).unwrap()
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
    fn secrets_of_a_url_are_not_shown() {
        let location = parse("s3://me:hunter2@bucket/prefix?secret_access_key=abc");
        assert_eq!(location.to_string(), "s3://bucket/prefix");
        assert_eq!(location.scheme(), "s3");
        assert_eq!(location.directory(), None);
    }
}
