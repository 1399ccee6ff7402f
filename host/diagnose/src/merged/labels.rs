//! The texts of frames, each once.

use std::collections::HashMap;

use model::SharedFrame;

use super::Level;
use crate::focus::Focus;
use crate::python::{is_library, is_standard_library};

/// All texts, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: Vec<Label>,
    by_text: HashMap<String, u32>,
}

/// A frame as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) is_focus: bool,
    pub(super) is_library: bool,
    pub(super) text: String,
}

/// What is known of the frames of one snapshot: each is looked at once.
#[derive(Debug)]
pub(super) struct Known<'a> {
    focus: Focus,
    frames: Vec<Facts<'a>>,
    by_content: HashMap<(&'a str, &'a str, i32), usize>,
    /// Those that are one for many stacks, by where they lie.
    by_place: HashMap<usize, usize>,
}

#[derive(Debug)]
struct Facts<'a> {
    frame: &'a SharedFrame,
    is_focus: bool,
    is_standard: bool,
    /// Its label without and with its line, once it was asked for.
    labels: [Option<u32>; 2],
}

impl<'a> Known<'a> {
    pub(super) fn new(focus: Focus) -> Self {
        Self {
            focus,
            frames: Vec::new(),
            by_content: HashMap::new(),
            by_place: HashMap::new(),
        }
    }

    fn facts(&mut self, frame: &'a SharedFrame) -> usize {
        // What a capture has read in many stacks is one frame; what was decoded may be many.
        let place = frame.has_clones().then(|| frame.place());
        if let Some(&known) = place.and_then(|place| self.by_place.get(&place)) {
            return known;
        }
        let content = (frame.name.as_str(), frame.filename.as_str(), frame.line);
        let facts = *self.by_content.entry(content).or_insert_with(|| {
            self.frames.push(Facts {
                frame,
                is_focus: self.focus.has(&frame.filename),
                is_standard: is_standard_library(frame),
                labels: [None, None],
            });
            self.frames.len() - 1
        });
        if let Some(place) = place {
            self.by_place.insert(place, facts);
        }
        facts
    }
}

impl Labels {
    /// Returns the place of a stack as numbers of labels, outermost frame first; never none.
    pub(super) fn place<'a>(
        &mut self,
        frames: &'a [SharedFrame],
        level: Level,
        known: &mut Known<'a>,
    ) -> Vec<u32> {
        if frames.is_empty() {
            return vec![self.add("no Python frame".to_owned(), false, true)];
        }
        let facts: Vec<usize> = frames.iter().map(|frame| known.facts(frame)).collect();
        let mut all = facts.iter();
        let own = all.position(|facts| !known.frames[*facts].is_standard);
        let numbered = facts.into_iter().enumerate().rev();
        numbered
            .map(|(index, facts)| {
                let facts = &mut known.frames[facts];
                let with_line = match level {
                    Level::Function => false,
                    Level::Focus => facts.is_focus || own == Some(index),
                    Level::Line => true,
                };
                *facts.labels[usize::from(with_line)]
                    .get_or_insert_with(|| self.label(facts.frame, with_line, facts.is_focus))
            })
            .collect()
    }

    fn label(&mut self, frame: &SharedFrame, with_line: bool, is_focus: bool) -> u32 {
        let path = &frame.filename;
        let file = path.rsplit('/').next().unwrap_or(path);
        let text = if with_line {
            format!("{} ({file}:{})", frame.name, frame.line)
        } else {
            format!("{} ({file})", frame.name)
        };
        // Files of one name in different folders are one.
        self.add(text, is_focus, is_library(frame))
    }

    fn add(&mut self, text: String, is_focus: bool, is_library: bool) -> u32 {
        let next = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        let label = *self.by_text.entry(text.clone()).or_insert(next);
        match self.labels.get_mut(label as usize) {
            Some(label) => {
                label.is_focus |= is_focus;
                label.is_library &= is_library;
            }
            None => self.labels.push(Label {
                is_focus,
                is_library,
                text,
            }),
        }
        label
    }

    /// Returns the label with this number.
    pub(super) fn get(&self, label: u32) -> &Label {
        &self.labels[label as usize]
    }

    /// Returns the texts of a place.
    pub(super) fn texts(&self, place: &[u32]) -> Vec<String> {
        let labels = place.iter().map(|label| self.get(*label));
        labels.map(|label| label.text.clone()).collect()
    }
}
