//! Who waits for a time and comes back.

use std::time::Duration;

use super::Actor;

impl Actor<'_> {
    /// Whether the main thread waits for a time, wakes in between now and then at most, and has not done so for too long: it comes
    /// back as far as is known. `waited` is for how long somebody has waited for it, `counts` whether it is known from steps how
    /// long things take.
    pub(crate) fn comes_back(&self, waited: Duration, counts: bool) -> bool {
        let pauses = self.seen.filter(|seen| !seen.main_ran || seen.is_seldom);
        self.wait.is_for_a_time() && pauses.is_some_and(|seen| seen.comes_back(waited, counts))
    }
}
