//! Segments come back as what they were made of.

use model::ProcessSample;
use proptest::prelude::*;

use super::*;
use crate::tests::{id, monitor, sample};

fn segment(samples: &[Sample]) -> Segment {
    Segment::of(samples, monitor().about.task, 100).unwrap()
}

#[test]
fn samples_come_back_with_memory_and_cpu_time_of_every_process() {
    let mut samples: Vec<Sample> = (0..65_u32)
        .map(|second| {
            sample(
                f64::from(second),
                &[(1, 4096 * (1 + u64::from(second))), (2, 8192)],
            )
        })
        .collect();
    for (at, sample) in samples.iter_mut().enumerate() {
        let at = u64::try_from(at).unwrap();
        sample.processes[0].utime_ticks = at * at;
        sample.processes[0].read_bytes = Some(7 * at);
    }
    samples[29].processes.remove(1); // it was not there for one sample
    samples[30].processes[1].rss_bytes = None;
    samples[30].processes[1].state = 'Z';
    let back = segment(&samples).samples();
    assert_eq!(back.len(), samples.len());
    for (at, (back, sample)) in back.iter().zip(&samples).enumerate() {
        assert_eq!(
            (back.at, back.elapsed_seconds.to_bits()),
            (sample.at, sample.elapsed_seconds.to_bits())
        );
        let numbers = |it: &ProcessSample| (it.identity, it.rss_bytes, it.utime_ticks, it.state);
        let of = |sample: &Sample| sample.processes.iter().map(numbers).collect::<Vec<_>>();
        assert_eq!(of(back), of(sample), "{at}");
        let read = back.processes[0].read_bytes;
        assert_eq!(
            read,
            (at % THIN == 0).then(|| sample.processes[0].read_bytes.unwrap())
        );
    }
}

#[test]
fn a_document_that_does_not_hold_together_is_survived() {
    let mut segment = segment(&[sample(0.0, &[(1, 10)])]);
    segment.processes[0].rows = vec![(5, usize::MAX), (0, 1), (usize::MAX, 3)];
    segment.at_usec.push(None);
    segment.elapsed_usec.push(Some(i64::MAX));
    let samples = segment.samples();
    assert_eq!(
        (samples.len(), samples[0].processes[0].identity),
        (1, id(1))
    );
}

#[test]
fn no_samples_are_no_segment() {
    assert_eq!(Segment::of(&[], monitor().about.task, 100), None);
}

/// Numbers that no compression can foresee.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Every process computes, allocates and transfers without a pattern.
fn busy(processes: i32, seconds: u32) -> Vec<Sample> {
    let mut noise = Noise(7);
    let all: Vec<(i32, u64)> = (1..=processes).map(|pid| (pid, 300 << 20)).collect();
    let mut sample = sample(0.0, &all);
    let mut samples = Vec::new();
    for second in 0..seconds {
        sample.at = sample
            .at
            .after(std::time::Duration::from_micros(999_900 + noise.below(200)));
        sample.elapsed_seconds =
            f64::from(second) + 1e-6 * f64::from(u32::try_from(noise.below(200)).unwrap());
        for process in &mut sample.processes {
            if noise.below(2) == 0 {
                let pages = noise.below(512) << 12;
                let rss = process.rss_bytes.unwrap();
                process.rss_bytes = Some(if noise.below(2) == 0 {
                    rss + pages
                } else {
                    rss.saturating_sub(pages)
                });
            }
            process.utime_ticks += noise.below(100);
            process.stime_ticks += noise.below(10);
            let add = |value: &mut Option<u64>, more: u64| *value = Some(value.unwrap_or(0) + more);
            add(&mut process.minor_faults, noise.below(1000));
            add(&mut process.voluntary_switches, noise.below(1000));
            add(&mut process.involuntary_switches, noise.below(100));
            add(&mut process.read_bytes, noise.below(1 << 20) << 12);
            add(&mut process.written_bytes, noise.below(1 << 10) << 12);
        }
        samples.push(sample.clone());
    }
    samples
}

#[test]
fn a_day_of_64_busy_processes_is_at_most_20_megabytes() {
    use std::io::Write;
    let text = serde_json::to_vec(&segment(&busy(64, 300))).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(8));
    gzip.write_all(&text).unwrap();
    let segment = gzip.finish().unwrap().len();
    let day = segment * 288;
    assert!(day <= 20_000_000, "{day} bytes a day, {segment} a segment");
    // What the words of docs/monitor.md rest on.
    assert!(
        day >= 5_000_000,
        "{day} bytes a day: the documentation says more"
    );
}

proptest! {
    #[test]
    fn every_column_comes_back(numbers in proptest::collection::vec(any::<Option<i64>>(), 0..40)) {
        prop_assert_eq!(values(&differences(numbers.iter().copied())), numbers);
    }
}
