//! What of the processes of a node could not be read, as gaps say.

use model::GapCode;

use super::Node;

impl Node<'_> {
    /// Whether something of a process that still was there could not be read, as gaps name it: then who else has it is not known.
    pub(crate) fn has_unread(&self, what: &str) -> bool {
        let mut gaps = self.newest().gaps.iter();
        gaps.any(|gap| gap.code != GapCode::Vanished && gap.what.split(',').any(|it| it == what))
    }
}
