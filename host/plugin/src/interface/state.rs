//! `state`: small values that outlive an instance.

use std::collections::BTreeMap;

use wasmtime::component::{HasData, Linker};

use crate::bindings::taskscope::plugin::state;
use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::guest::Guest;
use crate::limits;

/// The values of one plugin.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    size_bytes: usize,
    values: BTreeMap<String, Vec<u8>>,
}

impl State {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl HasData for State {
    type Data<'a> = &'a mut Self;
}

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    state::add_to_linker::<_, State>(linker, |guest| &mut guest.state)
}

impl state::Host for State {
    fn get(&mut self, key: String) -> Option<Vec<u8>> {
        self.values.get(&key).cloned()
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), Error> {
        let old = self.values.get(&key).map_or(0, |old| key.len() + old.len());
        let size_bytes = self.size_bytes - old + key.len() + value.len();
        let is_new = !self.values.contains_key(&key);
        if size_bytes > limits::STATE_BYTES || (is_new && self.values.len() >= limits::STATE_KEYS) {
            let (keys, bytes) = (limits::STATE_KEYS, limits::STATE_BYTES);
            return Err(Error {
                kind: ErrorKind::Limit,
                message: format!("the state would be over {keys} keys or {bytes} bytes"),
                retry_after_ms: None,
            });
        }
        self.size_bytes = size_bytes;
        self.values.insert(key, value);
        Ok(())
    }

    fn delete(&mut self, key: String) {
        if let Some(old) = self.values.remove(&key) {
            self.size_bytes -= key.len() + old.len();
        }
    }

    fn keys(&mut self, prefix: String) -> Vec<String> {
        self.values
            .keys()
            .filter(|key| key.starts_with(&prefix))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::Host;

    #[test]
    fn the_quota_counts_what_is_there_now() {
        let mut state = State::default();
        let half = vec![0; limits::STATE_BYTES / 2];
        state.set("a".to_owned(), half.clone()).unwrap();
        assert_eq!(
            state.set("b".to_owned(), half.clone()).unwrap_err().kind,
            ErrorKind::Limit
        );
        state.set("a".to_owned(), vec![1]).unwrap();
        state.set("b".to_owned(), half).unwrap();
        state.delete("b".to_owned());
        assert_eq!(
            (state.size_bytes, state.get("a".to_owned())),
            (2, Some(vec![1]))
        );
        assert_eq!(state.keys(String::new()), ["a"]);
    }

    #[test]
    fn there_is_a_limit_of_keys_but_old_ones_may_change() {
        let mut state = State::default();
        for key in 0..limits::STATE_KEYS {
            state.set(key.to_string(), vec![]).unwrap();
        }
        assert!(state.set("one more".to_owned(), vec![]).is_err());
        state.set("0".to_owned(), vec![7]).unwrap();
    }
}
