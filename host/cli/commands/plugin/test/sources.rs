//! The snapshots that `--on` names, one after the other: there may be more than fit into memory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::Context;
use model::Snapshot;
use store::{Key, Since, Store};

use crate::config::Loaded;
use crate::outcome::Refusal;
use crate::root::{self, At, Wanted};

/// What is still to be read.
pub(super) struct Sources(VecDeque<Source>);

enum Source {
    File(PathBuf),
    Stored(std::rc::Rc<Store>, Key),
}

impl Sources {
    /// Finds out which snapshots there are: files as they are named, of a store all of `task` and `node`.
    pub(super) async fn open(
        names: &[String],
        task: Option<&str>,
        node: Option<&str>,
        loaded: &Loaded,
    ) -> anyhow::Result<Self> {
        let mut sources = VecDeque::new();
        for name in names {
            if Path::new(name).is_file() {
                sources.push_back(Source::File(name.into()));
                continue;
            }
            let location = root::location(Some(name), loaded)?;
            let is_missing = location.directory().is_some_and(|path| !path.exists());
            anyhow::ensure!(
                !is_missing,
                "--on {name}: there is neither a snapshot file nor a store of this name"
            );
            let store = std::rc::Rc::new(Store::open(&location)?);
            let wanted = Wanted {
                attempt: None,
                node,
                task,
            };
            let source = root::source(&store, &location, wanted).await?;
            let place = source.find(&store, At::Latest).await?.key.place;
            for entry in store.history(&place, Since::Start).await?.entries {
                let key = Key {
                    place: place.clone(),
                    id: entry.id,
                };
                sources.push_back(Source::Stored(std::rc::Rc::clone(&store), key));
            }
        }
        Ok(Self(sources))
    }

    /// Reads the next snapshot; `None` after the last.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Snapshot>> {
        Ok(match self.0.pop_front() {
            None => None,
            Some(Source::Stored(store, key)) => Some(store.load(&key).await?),
            Some(Source::File(path)) => {
                let name = path.display().to_string();
                let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
                Some(store::decode_copy(&bytes, &name).context(Refusal::Settings)?)
            }
        })
    }
}
