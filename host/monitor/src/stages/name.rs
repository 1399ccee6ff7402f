//! What a stage may be called, and several names in one text.

/// The longest name, bytes.
pub(super) const NAME_LIMIT: usize = 200;

/// Returns a name that may be used; else which may.
pub fn check(name: &str) -> Result<String, String> {
    let is_fine = !name.is_empty()
        && name.len() <= NAME_LIMIT
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if is_fine {
        return Ok(name.to_owned());
    }
    Err(format!(
        "a stage's name is 1 to {NAME_LIMIT} bytes without control characters, and with no blanks at its ends"
    ))
}

/// Returns a path as one text: names joined by `/`. In a name, `/` is written `\/` and `\` is written `\\`, so that two
/// paths never have one text.
pub fn path_text(path: &[String]) -> String {
    let names = path.iter().map(|name| {
        let name = name.replace('\\', "\\\\");
        name.replace('/', "\\/")
    });
    names.collect::<Vec<String>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printable_and_not_blank() {
        assert_eq!(check("load data/ä 1"), Ok("load data/ä 1".to_owned()));
        for name in ["", " ", "a ", " a", "a\nb", "a\u{1b}b", "a\u{85}"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check(&"a".repeat(NAME_LIMIT)).is_ok());
        assert!(check(&"a".repeat(NAME_LIMIT + 1)).is_err());
    }

    #[test]
    fn two_paths_never_have_one_text() {
        let text = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            path_text(&names)
        };
        assert_eq!(text(&["fit", "epoch 1"]), "fit/epoch 1");
        assert_eq!(text(&["a/b", "c"]), "a\\/b/c");
        assert_ne!(text(&["a\\", "b"]), text(&["a\\/b"]));
        assert_ne!(text(&["a/b"]), text(&["a", "b"]));
    }
}
