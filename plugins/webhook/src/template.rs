//! The words of a message: text with places `{task}`, `{node}`, `{time}`, `{sequence}`, `{count}`, `{severity}`,
//! `{kinds}` and `{summary}`. `{{` and `}}` are braces.

/// What a place stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Count,
    Kinds,
    Node,
    Sequence,
    Severity,
    Summary,
    Task,
    Time,
}

const PLACES: [(&str, Place); 8] = [
    ("task", Place::Task),
    ("node", Place::Node),
    ("time", Place::Time),
    ("sequence", Place::Sequence),
    ("count", Place::Count),
    ("severity", Place::Severity),
    ("kinds", Place::Kinds),
    ("summary", Place::Summary),
];

/// A text with places.
#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Place(Place),
    Text(String),
}

impl Template {
    /// Reads a template; an error names the place that there is not.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let doubled = rest.starts_with("{{") || rest.starts_with("}}");
            if doubled {
                plain.push(character);
                rest = &rest[2..];
            } else if character == '{' {
                let (name, behind) = rest[1..].split_once('}').ok_or(
                    "a place of `template` is not closed; a brace by itself is written `{{`",
                )?;
                let known = PLACES.iter().find(|(place, _)| *place == name);
                let Some((_, place)) = known else {
                    let names = PLACES.map(|(name, _)| format!("{{{name}}}")).join(", ");
                    return Err(format!(
                        "`{{{name}}}` is no place of `template`; there are {names}"
                    ));
                };
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Place(*place));
                rest = behind;
            } else {
                plain.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }

    /// Fills the places with what `value` gives for each.
    pub(crate) fn fill(&self, value: impl Fn(Place) -> String) -> String {
        let filled = self.0.iter().map(|part| match part {
            Part::Place(place) => value(*place),
            Part::Text(text) => text.clone(),
        });
        filled.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_doubled_braces_are_braces() {
        let template = Template::parse("{{{task}}} is ä {summary}").unwrap();
        let filled = template.fill(|place| format!("{place:?}"));
        assert_eq!(filled, "{Task} is ä Summary");
    }

    #[test]
    fn a_place_that_there_is_not_is_named() {
        assert_eq!(
            Template::parse("{who}").unwrap_err(),
            "`{who}` is no place of `template`; there are {task}, {node}, {time}, {sequence}, {count}, {severity}, \
             {kinds}, {summary}"
        );
        assert!(
            Template::parse("{task")
                .unwrap_err()
                .contains("is not closed")
        );
    }
}
