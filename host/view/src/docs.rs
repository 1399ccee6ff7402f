//! The documentation, from `docs/*.md`, within the program: pages, their search, and whether their links lead somewhere.

use std::sync::LazyLock;

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Serialize;

use crate::answer::Answer;
use crate::pages::{Depth, layout};

/// The pages in the order of the list: name and text.
const PAGES: [(&str, &str); 13] = [
    ("entrypoint", include_str!("../../../docs/entrypoint.md")),
    ("causes", include_str!("../../../docs/causes.md")),
    ("merged", include_str!("../../../docs/merged.md")),
    ("view", include_str!("../../../docs/view.md")),
    ("monitor", include_str!("../../../docs/monitor.md")),
    ("ends", include_str!("../../../docs/ends.md")),
    ("control", include_str!("../../../docs/control.md")),
    ("snapshot", include_str!("../../../docs/snapshot.md")),
    ("storage", include_str!("../../../docs/storage.md")),
    (
        "stored-format",
        include_str!("../../../docs/stored-format.md"),
    ),
    ("plugins", include_str!("../../../docs/plugins.md")),
    ("sinks", include_str!("../../../docs/sinks.md")),
    ("performance", include_str!("../../../docs/performance.md")),
];

/// A page that was made.
#[derive(Debug)]
struct Page {
    body: String,
    /// Names that links may lead to.
    ids: Vec<String>,
    links: Vec<String>,
    name: &'static str,
    sections: Vec<Section>,
    title: String,
}

/// What is found by a search.
#[derive(Clone, Debug, Serialize)]
struct Section {
    text: String,
    title: String,
    /// Relative to the folder of the documentation.
    url: String,
}

static SITE: LazyLock<Vec<Page>> =
    LazyLock::new(|| PAGES.iter().map(|(name, text)| page(name, text)).collect());

/// Returns the document of this name below `docs/`.
pub(crate) fn document(name: &str) -> Option<Answer> {
    if name == "search.json" {
        let sections: Vec<&Section> = SITE.iter().flat_map(|page| &page.sections).collect();
        return Some(Answer::json(&sections));
    }
    let name = name.strip_suffix(".html")?;
    if name == "index" {
        return Some(Answer::html(framed("documentation", "", &list(""))));
    }
    let page = SITE.iter().find(|page| page.name == name)?;
    let body = html! { article { (PreEscaped(&page.body)) } };
    Some(Answer::html(framed(&page.title, name, &body)))
}

fn framed(title: &str, name: &str, content: &Markup) -> Markup {
    let content = html! {
        div.docs {
            aside {
                label for="search" { "search" }
                input #search type="search" autocomplete="off" aria-describedby="search-help";
                p.quiet #search-help { "/ leads here" }
                div #found aria-live="polite" {}
                @if !name.is_empty() { (list(name)) }
            }
            div.text { (content) }
        }
    };
    layout(title, Depth::Folder, &["docs.js"], &content)
}

fn list(active: &str) -> Markup {
    html! {
        nav aria-label="documentation" { ul {
            @for page in SITE.iter() {
                li { a href={ (page.name) ".html" } aria-current=[(page.name == active).then_some("page")] { (page.title) } }
            }
        } }
    }
}

/// Makes a page. Markup within the text is shown as text.
fn page(name: &'static str, text: &str) -> Page {
    let mut page = Page {
        body: String::new(),
        ids: Vec::new(),
        links: Vec::new(),
        name,
        sections: Vec::new(),
        title: name.to_owned(),
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    let mut made = Vec::with_capacity(events.len());
    let mut open_links = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let event = match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text.clone()),
            Event::Start(Tag::Heading { level, .. }) => {
                let words = words(&events[place..], |end| matches!(end, TagEnd::Heading(_)));
                let id = page.begin(*level, &words);
                Event::Html(format!("<{level} id=\"{id}\">").into())
            }
            Event::Start(Tag::TableCell) => {
                let id = match events.get(place + 1) {
                    Some(Event::Code(code)) if is_first_cell(&events[..place]) => page.named(code),
                    _ => None,
                };
                id.map_or_else(
                    || event.clone(),
                    |id| Event::Html(format!("<td id=\"{id}\">").into()),
                )
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let link = page.link(dest_url);
                open_links.push(link.is_some());
                link.map_or(Event::Text("".into()), |link| {
                    Event::Html(format!("<a href=\"{}\">", escaped(&link)).into())
                })
            }
            Event::End(TagEnd::Link) if open_links.pop() == Some(false) => Event::Text("".into()),
            Event::Text(text) | Event::Code(text) => {
                page.told(text);
                event.clone()
            }
            Event::SoftBreak => {
                page.told(&" ".into());
                event.clone()
            }
            other => other.clone(),
        };
        // A table that is wider than its window is moved by keys as well.
        if matches!(event, Event::Start(Tag::Table(_))) {
            made.push(Event::Html("<div class=\"wide\" tabindex=\"0\">".into()));
        }
        let ends_table = matches!(event, Event::End(TagEnd::Table));
        made.push(event);
        if ends_table {
            made.push(Event::Html("</div>".into()));
        }
    }
    pulldown_cmark::html::push_html(&mut page.body, made.into_iter());
    page
}

impl Page {
    /// Begins a section; returns the name that links lead to.
    fn begin(&mut self, level: HeadingLevel, words: &str) -> String {
        if level == HeadingLevel::H1 {
            words.clone_into(&mut self.title);
        }
        let slug = slug(words);
        let taken = self.ids.iter().filter(|id| **id == slug).count();
        let id = if taken == 0 {
            slug
        } else {
            format!("{slug}-{taken}")
        };
        self.ids.push(id.clone());
        self.sections.push(Section {
            text: String::new(),
            title: words.to_owned(),
            url: format!("{}.html#{id}", self.name),
        });
        id
    }

    /// Returns the name for what a table's row is about, where that is free.
    fn named(&mut self, code: &str) -> Option<String> {
        let is_plain = code.bytes().all(|it| it.is_ascii_lowercase() || it == b'-');
        let is_free = is_plain && !self.ids.iter().any(|id| id == code);
        is_free.then(|| {
            self.ids.push(code.to_owned());
            code.to_owned()
        })
    }

    /// Returns where a link of the text leads from here; nothing where that is not part of the documentation.
    fn link(&mut self, url: &str) -> Option<String> {
        let (file, id) = url
            .split_once('#')
            .map_or((url, None), |(file, id)| (file, Some(id)));
        let link = match file.strip_suffix(".md") {
            None if file.is_empty() => format!("{}.html", self.name),
            Some(name) if !name.contains('/') => format!("{name}.html"),
            // The rest is in the repository, or elsewhere: nothing leaves this machine.
            _ => return None,
        };
        let link = id.map_or_else(|| link.clone(), |id| format!("{link}#{id}"));
        self.links.push(link.clone());
        Some(link)
    }

    fn told(&mut self, text: &CowStr<'_>) {
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(text);
        }
    }
}

/// Whether a cell that follows these events is the first of a row of a table's body.
fn is_first_cell(before: &[Event<'_>]) -> bool {
    matches!(before.last(), Some(Event::Start(Tag::TableRow)))
}

/// The words up to an end.
fn words(events: &[Event<'_>], is_end: impl Fn(&TagEnd) -> bool) -> String {
    let inside = events.iter().take_while(|event| match event {
        Event::End(end) => !is_end(end),
        _ => true,
    });
    inside
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect()
}

/// The name that GitHub gives a heading.
fn slug(words: &str) -> String {
    words
        .to_lowercase()
        .chars()
        .filter_map(|it| match it {
            ' ' => Some('-'),
            '-' | '_' => Some(it),
            _ => it.is_alphanumeric().then_some(it),
        })
        .collect()
}

fn escaped(text: &str) -> String {
    html! { (text) }.into_string().replace('"', "&quot;")
}

/// Returns every link that leads to no page, or to no heading of it.
#[cfg(test)]
fn dangling(pages: &[Page]) -> Vec<String> {
    let ids: std::collections::BTreeMap<&str, &Vec<String>> =
        pages.iter().map(|page| (page.name, &page.ids)).collect();
    let mut dangling = Vec::new();
    for page in pages {
        for link in &page.links {
            let (file, id) = link.split_once('#').unwrap_or((link, ""));
            let there = ids.get(file.trim_end_matches(".html"));
            let is_there = there.is_some_and(|ids| id.is_empty() || ids.iter().any(|it| it == id));
            if !is_there {
                dangling.push(format!("{}: {link}", page.name));
            }
        }
    }
    dangling
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_document_is_a_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = names
            .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
            .collect();
        let known = PAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, known);
    }

    #[test]
    fn every_link_leads_somewhere_and_one_that_does_not_is_found() {
        assert_eq!(dangling(&SITE), Vec::<String>::new());
        let bad = page(
            "bad",
            "# Bad\n[a](none.md) [b](bad.md#nowhere) [c](#bad) [d](../x.rs)",
        );
        assert_eq!(
            dangling(&[bad]),
            ["bad: none.html", "bad: bad.html#nowhere"]
        );
    }

    #[test]
    fn every_cause_is_explained_where_the_verdict_leads() {
        let causes = SITE.iter().find(|page| page.name == "causes").unwrap();
        for cause in [
            diagnose::Cause::RankBehind,
            diagnose::Cause::Deadlock,
            diagnose::Cause::ShmFull,
        ] {
            assert!(causes.ids.contains(&cause.word()), "{}", cause.word());
        }
    }

    #[test]
    fn markup_in_a_text_is_text_and_headings_are_found_by_search() {
        let page = page(
            "x",
            "# One `two`\nsome <script>alert(1)</script> words\n\n## Part\nmore",
        );
        assert!(!page.body.contains("<script>"), "{}", page.body);
        assert!(page.body.contains("<h1 id=\"one-two\">"), "{}", page.body);
        assert_eq!(page.sections[1].url, "x.html#part");
        assert_eq!(page.sections[1].text, "Partmore");
        assert!(document("index.html").is_some() && document("..%2fx.html").is_none());
    }
}
