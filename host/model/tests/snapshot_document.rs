//! docs/snapshot.md names every field of the stored snapshot and every word that a field may hold, and no other.
//!
//! The fields are taken from the sources of this crate, as rustfmt lays them out: a sample document would miss what it
//! leaves out.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A type of the model that serde derives.
#[derive(Debug)]
enum Shape {
    /// Fields and their types.
    Struct(Vec<(String, String)>),
    /// Variants as stored; the types of what they hold have a name or, in a tuple of one, none.
    Enum(Vec<(String, Vec<Held>)>),
}

/// A value within a variant: its name, if it has one, and its type.
type Held = (Option<String>, String);

type Shapes = BTreeMap<String, Shape>;

/// Dotted paths of fields, and words with the path of the field that may hold them.
#[derive(Debug, Default, PartialEq)]
struct Names {
    fields: BTreeSet<String>,
    words: BTreeSet<(String, String)>,
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn shapes() -> Shapes {
    let mut shapes = Shapes::new();
    for entry in std::fs::read_dir(folder().join("src")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let mut attributes = String::new();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("#[") || (!attributes.is_empty() && line.starts_with([' ', ')'])) {
                attributes.push_str(line);
            } else if line.starts_with("pub struct ") || line.starts_with("pub enum ") {
                if attributes.contains("Serialize") && line.ends_with('{') {
                    let name = line.split(' ').nth(2).unwrap();
                    shapes.insert(name.to_owned(), shape(&attributes, line, &lines[at + 1..]));
                }
                attributes.clear();
            } else {
                attributes.clear();
            }
        }
    }
    shapes
}

/// Reads the body of a type that starts at the first of `lines`.
fn shape(attributes: &str, head: &str, lines: &[&str]) -> Shape {
    let end = lines.iter().position(|line| *line == "}").unwrap();
    let body = lines[..end].iter().map(|line| line.trim());
    let body: String = body
        .filter(|line| !line.starts_with("//"))
        .fold(String::new(), |text, line| text + line + " ");
    let members = split(&body);
    if head.starts_with("pub struct ") {
        assert!(
            !attributes.contains("rename_all"),
            "{head} renames its fields"
        );
        return Shape::Struct(
            fields(&members)
                .map(|(name, of)| (name.unwrap(), of))
                .collect(),
        );
    }
    let dashed = attributes.contains("kebab-case");
    assert!(
        dashed || attributes.contains("snake_case"),
        "{head} has no rule for its words"
    );
    let variants = members.iter().map(|member| {
        let member = without_attributes(member);
        let name = member.split([' ', '(', '{']).next().unwrap();
        let inside = member[name.len()..].trim();
        let held = match inside.chars().next() {
            Some('(') => vec![(None, inside[1..inside.len() - 1].to_owned())],
            Some('{') => fields(&split(&inside[1..inside.len() - 1])).collect(),
            _ => Vec::new(),
        };
        (stored_word(name, if dashed { '-' } else { '_' }), held)
    });
    Shape::Enum(variants.collect())
}

fn fields(members: &[String]) -> impl Iterator<Item = Held> {
    members
        .iter()
        .filter(|member| !member.contains("#[serde(skip)]"))
        .map(|member| {
            let renamed = member
                .split_once("rename = \"")
                .map(|(_, rest)| rest.split('"').next().unwrap().to_owned());
            let member = without_attributes(member);
            let (name, of) = member.split_once(": ").unwrap();
            let name = name.trim_start_matches("pub ").trim_start_matches("r#");
            (
                Some(renamed.unwrap_or_else(|| name.to_owned())),
                of.to_owned(),
            )
        })
}

/// Returns what stands between commas that are in no bracket.
fn split(body: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut before) = (0, ' ');
    for character in body.chars() {
        match character {
            '(' | '{' | '[' | '<' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = character;
        if character == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(character);
        }
    }
    let parts = parts.iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

fn without_attributes(member: &str) -> &str {
    let mut rest = member.trim();
    while rest.starts_with("#[") {
        rest = rest[rest.find(']').unwrap() + 1..].trim();
    }
    rest
}

fn stored_word(name: &str, between: char) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !word.is_empty() {
            word.push(between);
        }
        word.push(letter.to_ascii_lowercase());
    }
    word
}

/// Adds all that a value of type `of` at `path` may hold.
fn walk(shapes: &Shapes, of: &str, path: &str, names: &mut Names) {
    let inner = |start: &str| of.strip_prefix(start)?.strip_suffix('>').map(str::to_owned);
    if let Some(inner) = inner("Option<").or_else(|| inner("Box<")) {
        return walk(shapes, &inner, path, names);
    }
    if of == "SharedFrame" {
        return walk(shapes, "Frame", path, names);
    }
    if let Some(inner) = inner("Vec<").or_else(|| inner("BTreeSet<")) {
        return walk(shapes, &inner, &format!("{path}[]"), names);
    }
    if let Some(inner) = inner("BTreeMap<") {
        return walk(shapes, &split(&inner)[1], &format!("{path}.*"), names);
    }
    let below = |name: &str| format!("{path}.{name}").trim_start_matches('.').to_owned();
    match shapes.get(of) {
        None => {}
        Some(Shape::Struct(fields)) => {
            for (name, of) in fields {
                names.fields.insert(below(name));
                walk(shapes, of, &below(name), names);
            }
        }
        Some(Shape::Enum(variants)) => {
            for (word, held) in variants {
                names.words.insert((path.to_owned(), word.clone()));
                for (name, of) in held {
                    let Some(name) = name else {
                        walk(shapes, of, &below(word), names);
                        continue;
                    };
                    let name = below(&format!("{word}.{name}"));
                    walk(shapes, of, &name, names);
                    names.fields.insert(name);
                }
            }
        }
    }
}

/// What the document names: a heading holds the paths of objects, or of fields whose words follow.
fn documented(text: &str) -> Names {
    let mut names = Names::default();
    let mut paths: Vec<&str> = Vec::new();
    let mut are_words = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            are_words = heading.starts_with("Words of ");
            paths = heading.split('`').skip(1).step_by(2).collect();
        } else if line.starts_with("| `") {
            let cells: Vec<&str> = line.split(" | ").collect();
            assert_eq!(cells.len(), if are_words { 2 } else { 6 }, "{line}");
            assert!(
                cells
                    .iter()
                    .all(|cell| !cell.trim_matches([' ', '|']).is_empty()),
                "{line}"
            );
            let name = cells[0].split('`').nth(1).unwrap();
            for path in &paths {
                let is_new = if are_words {
                    names.words.insert(((*path).to_owned(), name.to_owned()))
                } else {
                    let path = format!("{path}.{name}");
                    names
                        .fields
                        .insert(path.trim_start_matches("$.").to_owned())
                };
                assert!(is_new, "{path}: {name} is there twice");
            }
        }
    }
    names
}

#[test]
fn the_document_names_every_field_and_word_and_no_other() {
    let mut stored = Names::default();
    walk(&shapes(), "Snapshot", "", &mut stored);
    assert!(stored.fields.contains("processes[].proc.threads[].wchan"));
    assert!(stored.fields.contains("annotations[].target.thread.tid"));
    assert!(
        stored
            .words
            .contains(&("plugins[].outcome".into(), "not-ready".into()))
    );

    let text = std::fs::read_to_string(folder().join("../../docs/snapshot.md")).unwrap();
    let documented = documented(&text);
    let missing: Vec<_> = stored.fields.difference(&documented.fields).collect();
    let superfluous: Vec<_> = documented.fields.difference(&stored.fields).collect();
    let missing_words: Vec<_> = stored.words.difference(&documented.words).collect();
    let superfluous_words: Vec<_> = documented.words.difference(&stored.words).collect();
    assert!(
        stored == documented,
        "docs/snapshot.md\nlacks the fields {missing:#?}\nand the words {missing_words:#?}\n\
         names the fields {superfluous:#?}\nand the words {superfluous_words:#?} that are not stored"
    );
}
