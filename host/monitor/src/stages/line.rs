//! What a line of text says of a stage: `stage begin id=7 name=load data`, `stage end id=7 error=ValueError`.
//!
//! The name comes last and takes the rest of the line, so that it needs no quotes. docs/control.md tells all of it.

use std::fmt;

use crate::stages::name;

/// The longest id and error, bytes.
const TOKEN_LIMIT: usize = 100;
/// No stage takes longer, seconds: a hundred years.
const LONGEST: f64 = 100.0 * 365.25 * 86_400.0;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum StageLine {
    /// A stage begins.
    Begin(Begin),
    /// A stage ends.
    End(End),
}

/// The beginning of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// What its end will name; without one, thread and name do.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// The stage that it lies in; without one, the innermost of the same thread that has no id, where this one has none.
    pub parent: Option<ParentId>,
    /// The process that it belongs to, where that is not the writer of the line.
    pub pid: Option<i32>,
    /// How many stages its owner has not told since the last line.
    pub skipped: u32,
    /// The thread that it belongs to.
    pub thread: Option<i32>,
    /// Whether the end of its process is its proper end.
    pub until_exit: bool,
}

/// Which stage another lies in: `ID` in the same process, `PID:ID` in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentId {
    /// The id in its process.
    pub id: String,
    /// That process.
    pub pid: Option<i32>,
}

/// The end of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// The name of the error that it ended with.
    pub error: Option<String>,
    /// What its beginning named.
    pub id: Option<String>,
    /// Its name, where it has no id; without one, the innermost of the thread.
    pub name: Option<String>,
    /// The process that it belongs to, where that is not the writer of the line.
    pub pid: Option<i32>,
    /// How long it took as its owner measured it, seconds.
    pub seconds: Option<f64>,
    /// The thread that it belongs to.
    pub thread: Option<i32>,
}

/// Why a line says nothing of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseStageError(String);

impl fmt::Display for ParseStageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ParseStageError {}

const FORMS: &str = "`begin [id=ID] [parent=ID|PID:ID] [pid=PID] [thread=TID] [until=exit] [skipped=N] name=NAME` or \
     `end [id=ID] [pid=PID] [thread=TID] [seconds=S] [error=TYPE] [name=NAME]`";

impl StageLine {
    /// Reads what follows `stage` in a line.
    pub fn parse(text: &str) -> Result<Self, ParseStageError> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (words, name) = split_name(rest);
        let name = name.map(name::check).transpose().map_err(ParseStageError)?;
        match verb {
            "begin" => begin(words, name).map(Self::Begin),
            "end" => end(words, name).map(Self::End),
            _ => refuse(format!("a stage line is {FORMS}")),
        }
    }
}

fn begin(words: &str, name: Option<String>) -> Result<Begin, ParseStageError> {
    let Some(name) = name else {
        return refuse("the beginning of a stage ends with `name=NAME`".to_owned());
    };
    let mut begin = Begin {
        name,
        ..Begin::default()
    };
    for (key, value) in pairs(words) {
        match key {
            "id" => begin.id = Some(token(key, value)?),
            "parent" => begin.parent = Some(parent(value)?),
            "pid" => begin.pid = Some(number(key, value)?),
            "skipped" => begin.skipped = number(key, value)?.unsigned_abs(),
            "thread" => begin.thread = Some(number(key, value)?),
            "until" if value == "exit" => begin.until_exit = true,
            _ => return unknown(key),
        }
    }
    Ok(begin)
}

fn end(words: &str, name: Option<String>) -> Result<End, ParseStageError> {
    let mut end = End {
        name,
        ..End::default()
    };
    for (key, value) in pairs(words) {
        match key {
            "error" => end.error = Some(token(key, value)?),
            "id" => end.id = Some(token(key, value)?),
            "pid" => end.pid = Some(number(key, value)?),
            "seconds" => end.seconds = Some(seconds(value)?),
            "thread" => end.thread = Some(number(key, value)?),
            _ => return unknown(key),
        }
    }
    Ok(end)
}

/// The words before the name, and the name, which is the rest of the line.
fn split_name(text: &str) -> (&str, Option<&str>) {
    if let Some(name) = text.strip_prefix("name=") {
        return ("", Some(name));
    }
    match text.split_once(" name=") {
        Some((words, name)) => (words, Some(name)),
        None => (text, None),
    }
}

fn pairs(words: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = words.split(' ').filter(|word| !word.is_empty());
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

fn token(key: &str, value: &str) -> Result<String, ParseStageError> {
    let is_fine = |letter: char| letter.is_ascii_graphic() && letter != ':';
    // Types of some languages have colons in them; an id is told apart from a PID by one.
    let is_fine = |letter| is_fine(letter) || key == "error" && letter == ':';
    if value.is_empty() || value.len() > TOKEN_LIMIT || !value.chars().all(is_fine) {
        return refuse(format!(
            "`{key}=` takes up to {TOKEN_LIMIT} visible ASCII characters without blanks and colons"
        ));
    }
    Ok(value.to_owned())
}

fn parent(value: &str) -> Result<ParentId, ParseStageError> {
    let (pid, id) = match value.split_once(':') {
        Some((pid, id)) => (Some(number("parent", pid)?), id),
        None => (None, value),
    };
    let id = token("parent", id)?;
    Ok(ParentId { id, pid })
}

fn number(key: &str, value: &str) -> Result<i32, ParseStageError> {
    match value.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => refuse(format!("`{key}=` takes a number above zero")),
    }
}

fn seconds(value: &str) -> Result<f64, ParseStageError> {
    match value.parse() {
        Ok(seconds) if (0.0..=LONGEST).contains(&seconds) => Ok(seconds),
        _ => refuse("`seconds=` takes a number of seconds such as 0.25".to_owned()),
    }
}

fn unknown<T>(key: &str) -> Result<T, ParseStageError> {
    let letters = key.chars().filter(char::is_ascii_graphic);
    let key: String = letters.take(20).collect();
    refuse(format!(
        "`{key}` is not known in a stage line, which is {FORMS}"
    ))
}

fn refuse<T>(reason: String) -> Result<T, ParseStageError> {
    Err(ParseStageError(reason))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_is_the_rest_of_the_line() {
        let line = StageLine::parse(
            "begin id=7 parent=12:a.b pid=3 thread=4 until=exit skipped=9 name=load name= a/b",
        );
        let begin = Begin {
            id: Some("7".to_owned()),
            name: "load name= a/b".to_owned(),
            parent: Some(ParentId {
                id: "a.b".to_owned(),
                pid: Some(12),
            }),
            pid: Some(3),
            skipped: 9,
            thread: Some(4),
            until_exit: true,
        };
        assert_eq!(line, Ok(StageLine::Begin(begin)));
        let line = StageLine::parse("end  seconds=0.25 error=std::bad_alloc name=fit");
        let end = End {
            error: Some("std::bad_alloc".to_owned()),
            name: Some("fit".to_owned()),
            seconds: Some(0.25),
            ..End::default()
        };
        assert_eq!(line, Ok(StageLine::End(end)));
        assert_eq!(StageLine::parse("end"), Ok(StageLine::End(End::default())));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_form_that_is_right() {
        for (line, words) in [
            ("", "a stage line is `begin"),
            ("start name=x", "a stage line is `begin"),
            ("begin id=7", "ends with `name=NAME`"),
            ("begin name=", "1 to 200 bytes"),
            ("begin nam=x", "ends with `name=NAME`"),
            ("begin idd=7 name=x", "`idd` is not known"),
            ("begin until=death name=x", "`until` is not known"),
            ("begin id=a:b name=x", "`id=` takes up to 100"),
            ("begin parent=x:b name=x", "`parent=` takes a number"),
            ("begin pid=-3 name=x", "`pid=` takes a number above zero"),
            ("end seconds=inf", "a number of seconds"),
            ("end seconds=nan", "a number of seconds"),
            ("end seconds=-1", "a number of seconds"),
            ("end error=a\u{7}", "`error=` takes"),
        ] {
            let error = StageLine::parse(line).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_bounded(text in ".{0,300}") {
            for verb in ["begin ", "end ", ""] {
                match StageLine::parse(&format!("{verb}{text}")) {
                    Ok(StageLine::Begin(begin)) => prop_assert!(begin.name.len() <= name::NAME_LIMIT),
                    Ok(StageLine::End(end)) => prop_assert!(end.seconds.is_none_or(f64::is_finite)),
                    Err(error) => {
                        let words = error.to_string();
                        prop_assert!(words.len() < 300 && !words.chars().any(char::is_control));
                    }
                }
            }
        }

        #[test]
        fn a_line_that_is_made_well_is_read_back(id in "[a-z0-9.-]{1,20}", name in "[a-zäß/= ]{1,40}", seconds in 0.0..1e6_f64) {
            prop_assume!(name.trim() == name);
            let begin = StageLine::parse(&format!("begin id={id} name={name}"));
            let begin_is = Begin { id: Some(id.clone()), name, ..Begin::default() };
            prop_assert_eq!(begin, Ok(StageLine::Begin(begin_is)));
            let end = StageLine::parse(&format!("end seconds={seconds} id={id}"));
            let end_is = End { id: Some(id), seconds: Some(seconds), ..End::default() };
            prop_assert_eq!(end, Ok(StageLine::End(end_is)));
        }
    }
}
