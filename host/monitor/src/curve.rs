//! Samples of a long time as few points, in bounded memory however long the time is.

use model::{Sample, Timestamp};
use serde::{Deserialize, Serialize};

use crate::reading::known_sum;
use crate::{Reading, Segment};

/// The time that a point stands for at first, seconds; it doubles as often as there are too many points.
const FIRST_WIDTH: f64 = 0.1;

/// What the samples of some time come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When its first sample began, by the clock of the node.
    pub at: Timestamp,
    /// The highest memory of the task's own cgroup.
    pub cgroup_memory_bytes: Option<u64>,
    /// CPU time in it, percent of one core.
    pub cpu_percent: Option<f64>,
    /// From the start of the run to its first sample, seconds by the monotonic clock.
    pub elapsed_seconds: f64,
    /// The most processes.
    pub process_count: u64,
    /// Bytes read from storage.
    pub read_bytes: Option<u64>,
    /// How many samples.
    pub samples: u64,
    /// The highest sum of PSS.
    pub tree_pss_bytes: Option<u64>,
    /// The highest sum of RSS.
    pub tree_rss_bytes: Option<u64>,
    /// Bytes written to storage.
    pub written_bytes: Option<u64>,
    /// CPU time, seconds, and the time that it was used in.
    #[serde(skip)]
    used: Option<(f64, f64)>,
}

/// Folds segments into points.
#[derive(Clone, Debug)]
pub struct Curve {
    before: Option<Sample>,
    most: usize,
    /// What is added to the times of a collector that went on after another.
    offset: f64,
    points: Vec<Point>,
    width: f64,
}

impl Curve {
    /// Returns a curve of `most` points at most, one at least.
    pub fn new(most: usize) -> Self {
        Self {
            before: None,
            most: most.max(1),
            offset: 0.0,
            points: Vec::new(),
            width: FIRST_WIDTH,
        }
    }

    /// Adds the samples of a segment, which begin later than those that were added before.
    pub fn add(&mut self, segment: &Segment) {
        for sample in segment.samples() {
            let before = self.before.take();
            let is_next = |it: &Sample| it.elapsed_seconds < sample.elapsed_seconds;
            if before.as_ref().is_some_and(|it| !is_next(it)) {
                // Another collector: its clock began anew.
                let last = self.points.last().map_or(0.0, |it| it.elapsed_seconds);
                self.offset = last + 2.0 * self.width; // it falls into no point of the other
            }
            let before = before.filter(is_next);
            let ticks = segment.clock_ticks_per_second.max(1);
            let reading = Reading::of(&sample, before.as_ref(), ticks, String::new());
            self.push(Point::of(&reading, self.offset));
            self.before = Some(sample);
        }
    }

    /// Returns the points, oldest first.
    pub fn finish(mut self) -> Vec<Point> {
        for point in &mut self.points {
            point.cpu_percent = point
                .used
                .and_then(|(used, time)| crate::reading::percent(used, time));
        }
        self.points
    }

    fn push(&mut self, point: Point) {
        self.join(point);
        while self.points.len() > self.most {
            self.width *= 2.0;
            for point in std::mem::take(&mut self.points) {
                self.join(point);
            }
        }
    }

    /// Adds `point` to the last one where both are in one width of time, else behind it.
    fn join(&mut self, point: Point) {
        let place = |it: &Point| (it.elapsed_seconds / self.width).floor();
        match self.points.last_mut() {
            Some(last) if place(last) >= place(&point) => last.take(point),
            _ => self.points.push(point),
        }
    }
}

impl Point {
    fn of(reading: &Reading, offset: f64) -> Self {
        let used = reading.used;
        Self {
            at: reading.at,
            cgroup_memory_bytes: reading.cgroup.as_ref().and_then(|it| it.usage_bytes),
            cpu_percent: None,
            elapsed_seconds: reading.elapsed_seconds + offset,
            process_count: reading.process_count,
            read_bytes: used.and_then(|it| it.read_bytes),
            samples: 1,
            tree_pss_bytes: reading.tree_pss_bytes,
            tree_rss_bytes: reading.tree_rss_bytes,
            used: used.map(|it| (it.cpu_seconds, it.seconds)),
            written_bytes: used.and_then(|it| it.written_bytes),
        }
    }

    fn take(&mut self, other: Self) {
        self.cgroup_memory_bytes = self.cgroup_memory_bytes.max(other.cgroup_memory_bytes);
        self.process_count = self.process_count.max(other.process_count);
        self.read_bytes = known_sum(self.read_bytes, other.read_bytes);
        self.samples += other.samples;
        self.tree_pss_bytes = self.tree_pss_bytes.max(other.tree_pss_bytes);
        self.tree_rss_bytes = self.tree_rss_bytes.max(other.tree_rss_bytes);
        self.used = match (self.used, other.used) {
            (Some((cpu, time)), Some((more, longer))) => Some((cpu + more, time + longer)),
            (one, another) => one.or(another),
        };
        self.written_bytes = known_sum(self.written_bytes, other.written_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{monitor, sample};

    fn segment(from: u32, to: u32) -> Segment {
        let samples: Vec<Sample> = (from..to)
            .map(|second| {
                let rss = 4096 * u64::from(if second == 70 { 900 } else { second % 50 + 1 });
                let mut sample = sample(f64::from(second), &[(1, rss)]);
                sample.processes[0].utime_ticks = 50 * u64::from(second);
                sample
            })
            .collect();
        Segment::of(&samples, monitor().about.task, 100).unwrap()
    }

    #[test]
    fn a_long_run_is_few_points_and_no_peak_is_lost() {
        let mut curve = Curve::new(10);
        curve.add(&segment(0, 60));
        curve.add(&segment(60, 100));
        let points = curve.finish();
        assert!((5..=10).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|it| it.samples).sum::<u64>(), 100);
        let peak = points.iter().filter_map(|it| it.tree_rss_bytes).max();
        assert_eq!(peak, Some(900 * 4096));
        assert_eq!(
            points[1].cpu_percent,
            Some(50.0),
            "also between two segments"
        );
    }

    #[test]
    fn a_collector_that_goes_on_after_another_comes_behind_it() {
        let mut curve = Curve::new(100);
        curve.add(&segment(0, 5));
        curve.add(&segment(0, 5));
        let points = curve.finish();
        assert_eq!(points.len(), 10);
        assert!(points.is_sorted_by(|a, b| a.elapsed_seconds < b.elapsed_seconds));
        assert_eq!(points[5].cpu_percent, None, "what is between is not known");
    }

    #[test]
    fn one_point_is_the_least() {
        let mut curve = Curve::new(0);
        curve.add(&segment(0, 9));
        assert_eq!(curve.finish().len(), 1);
    }
}
