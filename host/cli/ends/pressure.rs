//! When memory is about to run out, by how fast it was used up lately: then a look is worth more now than later. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use capture::MemoryRoom;

/// A look is asked for when so much time is left: it takes some itself, and is to be in the spool before the kill.
const AHEAD: Duration = Duration::from_secs(3);
/// With more than half of it free no growth is believed to go on for long.
const WORTH_WATCHING: u64 = 2;
/// With less than one part in so many used, who fills it within a second is faster than any look.
const CALM: u64 = 4;
/// The past that growth is told from.
const WINDOW: Duration = Duration::from_millis(1500);
/// So long after a look there is another, while memory still runs out; after [`PATIENT_LOOKS`] of them twice as long each time.
const BETWEEN: Duration = Duration::from_millis(1500);
const LONGEST_BETWEEN: Duration = Duration::from_mins(2);
const PATIENT_LOOKS: u32 = 4;

/// Watches how memory is used up.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    asked: Option<Instant>,
    is_calm: bool,
    between: Duration,
    looks: u32,
    past: BTreeMap<Option<String>, VecDeque<(Instant, u64)>>,
}

/// Whether it is worth asking how much of what is used can be given up.
pub(super) fn is_worth_watching(room: &MemoryRoom) -> bool {
    room.usage_bytes >= room.limit_bytes / WORTH_WATCHING
}

impl Forecast {
    /// Notes that of `room` so much was used `at` this time that cannot be given up; returns whether to look now.
    pub(super) fn note(&mut self, at: Instant, room: &MemoryRoom, needed: u64) -> bool {
        let past = self.past.entry(room.path.clone()).or_default();
        while past
            .front()
            .is_some_and(|(then, _)| at.duration_since(*then) > WINDOW)
        {
            past.pop_front();
        }
        let oldest = past.front().copied();
        past.push_back((at, needed));
        let Some((then, needed_then)) = oldest else {
            return false;
        };
        if needed < room.limit_bytes / WORTH_WATCHING {
            return false;
        }
        let Some(left) = time_left(
            room.limit_bytes,
            (needed_then, needed),
            at.duration_since(then),
        ) else {
            return false;
        };
        if left > AHEAD {
            return false;
        }
        if let Some(asked) = self.asked {
            let since = at.duration_since(asked);
            if since < self.between {
                return false;
            }
            if since > LONGEST_BETWEEN {
                (self.looks, self.between) = (0, BETWEEN);
            }
        }
        self.asked = Some(at);
        self.looks += 1;
        self.between = match self.looks {
            ..=PATIENT_LOOKS => BETWEEN,
            _ => (self.between * 2).min(LONGEST_BETWEEN),
        };
        true
    }

    /// Whether memory is so far from running out that it is enough to look each second.
    pub(super) fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// Notes how full `rooms` are: all but the machine, which is never looked at more often.
    pub(super) fn look_over<'a>(&mut self, mut rooms: impl Iterator<Item = &'a MemoryRoom>) {
        self.is_calm = rooms.all(|room| room.usage_bytes < room.limit_bytes / CALM);
    }

    /// Forgets the rooms that are no longer looked at.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&Option<String>) -> bool) {
        self.past.retain(|path, _| is_kept(path));
    }
}

/// When `limit` is reached if usage goes on to grow as it did over `elapsed`; none where it does not grow.
fn time_left(limit: u64, (then, now): (u64, u64), elapsed: Duration) -> Option<Duration> {
    let grown = now.checked_sub(then).filter(|&grown| grown > 0)?;
    let left = limit.saturating_sub(now);
    let nanoseconds = elapsed.as_nanos().saturating_mul(u128::from(left)) / u128::from(grown);
    Some(Duration::from_nanos(
        u64::try_from(nanoseconds).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn room(limit: u64) -> MemoryRoom {
        MemoryRoom {
            limit_bytes: limit,
            path: None,
            peak_bytes: None,
            usage_bytes: 0,
        }
    }

    /// Returns at which ticks, a quarter of a second apart, a look is asked for.
    fn asked(limit: u64, needed: impl Fn(u64) -> u64, ticks: u64) -> Vec<u64> {
        let (mut forecast, begun) = (Forecast::default(), Instant::now());
        let at = |tick| begun + Duration::from_millis(250) * u32::try_from(tick).unwrap();
        let ticks = 0..ticks;
        ticks
            .filter(|&tick| forecast.note(at(tick), &room(limit), needed(tick)))
            .collect()
    }

    #[test]
    fn a_look_comes_within_two_seconds_before_any_steady_growth_reaches_the_limit() {
        // MiB a second, over a GiB.
        for rate in [10, 50, 100, 200, 400] {
            let end = 1024 * 4 / rate;
            let looks = asked(1024 * MIB, |tick| tick * rate * MIB / 4, end);
            let last = *looks.last().unwrap();
            assert!(end - last <= 8, "{rate} MiB/s: {looks:?} of {end}");
        }
    }

    #[test]
    fn it_is_calm_while_most_is_free_and_at_first_nobody_knows() {
        let used = |usage_bytes| MemoryRoom {
            usage_bytes,
            ..room(1024 * MIB)
        };
        let mut forecast = Forecast::default();
        assert!(!forecast.is_calm());
        forecast.look_over([used(255 * MIB), used(MIB)].iter());
        assert!(forecast.is_calm());
        forecast.look_over([used(MIB), used(256 * MIB)].iter());
        assert!(!forecast.is_calm());
        // Without any limit nothing runs out.
        forecast.look_over([].iter());
        assert!(forecast.is_calm());
    }

    #[test]
    fn who_lives_near_the_limit_without_growing_is_left_alone() {
        assert_eq!(asked(1024 * MIB, |_| 1020 * MIB, 400), [0; 0]);
        // Slow growth leaves time.
        assert_eq!(
            asked(1024 * MIB, |tick| 600 * MIB + tick * MIB, 200),
            [0; 0]
        );
    }

    #[test]
    fn who_threatens_for_ever_is_looked_at_less_and_less() {
        let saw = |tick: u64| 900 * MIB + tick % 20 * 5 * MIB;
        let looks = asked(1024 * MIB, saw, 4 * 600);
        assert!(looks.len() < 16, "{}", looks.len());
    }
}
