//! Scores on hand-made stacks.

use super::*;

/// Stacks given as `function file line` words, innermost frame first; equal frames are one.
fn table(stacks: &[&[(&str, &str, u32)]]) -> Table {
    let mut table = Table {
        offsets: vec![0],
        strings: vec![String::new()],
        ..Table::default()
    };
    for stack in stacks {
        for &(function, file, line) in *stack {
            let function = intern(&mut table.strings, function);
            let file = intern(&mut table.strings, file);
            let same =
                |frame: &Frame| (frame.file, frame.function, frame.line) == (file, function, line);
            let known = table.frames.iter().position(same);
            let frame = known.unwrap_or(table.frames.len());
            if known.is_none() {
                table.frames.push(Frame {
                    file,
                    function,
                    line,
                });
            }
            table.frame_ids.push(u32::try_from(frame).unwrap());
        }
        let end = u32::try_from(table.frame_ids.len()).unwrap();
        table.offsets.push(end);
    }
    table
}

fn intern(strings: &mut Vec<String>, text: &str) -> usize {
    let known = strings.iter().position(|string| string == text);
    known.unwrap_or_else(|| {
        strings.push(text.to_owned());
        strings.len() - 1
    })
}

fn focus() -> Focus {
    Focus::parse(r#"{"focus-files":["train.py"]}"#).unwrap()
}

fn thread(pid: u32, stack: u32, running: bool) -> Thread {
    Thread {
        pid,
        running,
        stack,
    }
}

const IN_STEP: &[(&str, &str, u32)] = &[("step", "/w/train.py", 9), ("main", "/w/train.py", 20)];
const IN_READ: &[(&str, &str, u32)] = &[
    ("read", "/lib/io.py", 3),
    ("load", "/w/train.py", 5),
    ("main", "/w/train.py", 20),
];
const ELSEWHERE: &[(&str, &str, u32)] = &[("wait", "/lib/threading.py", 1)];

#[test]
fn a_stack_scores_by_how_deep_the_focus_lies() {
    let table = table(&[IN_STEP, IN_READ, ELSEWHERE]);
    let scores = judge(&focus(), &table, &[]);
    assert_eq!(
        scores,
        [
            Score::Number(Target::Stack(0), 1.0),
            Score::Number(Target::Stack(1), 0.5)
        ]
    );
}

#[test]
fn a_frame_scores_what_happens_at_it() {
    let table = table(&[IN_STEP, IN_READ]);
    let threads = [
        thread(1, 0, false),
        thread(2, 0, false),
        thread(3, 1, false),
    ];
    let scores = judge(&focus(), &table, &threads);
    let of_frames: Vec<&Score> = scores
        .iter()
        .filter(|score| matches!(score, Score::Number(Target::Frame(_), _)))
        .collect();
    // `step` of two threads; `load` of one; `main` is the innermost of none.
    assert_eq!(
        of_frames,
        [
            &Score::Number(Target::Frame(0), 2.0),
            &Score::Number(Target::Frame(3), 0.5)
        ]
    );
}

fn hottest(table: &Table, threads: &[Thread]) -> Vec<(u32, String)> {
    let scores = judge(&focus(), table, threads);
    let lines = scores.into_iter().filter_map(|score| match score {
        Score::HottestLine(pid, line) => Some((pid, line)),
        Score::Number(..) => None,
    });
    lines.collect()
}

#[test]
fn the_hottest_line_is_where_most_threads_are() {
    let table = table(&[IN_STEP, IN_READ]);
    let threads = [
        thread(7, 0, false),
        thread(7, 1, false),
        thread(7, 1, false),
    ];
    let expected = (7, "/w/train.py:5 load".to_owned());
    assert_eq!(hottest(&table, &threads), [expected]);
}

#[test]
fn one_thread_that_runs_outweighs_many_that_wait() {
    let table = table(&[IN_STEP, IN_READ]);
    let threads = [thread(7, 0, true), thread(7, 1, false), thread(7, 1, false)];
    let expected = (7, "/w/train.py:9 step".to_owned());
    assert_eq!(hottest(&table, &threads), [expected]);
}

#[test]
fn a_process_that_is_nowhere_near_has_no_line() {
    let table = table(&[ELSEWHERE, IN_STEP]);
    let threads = [thread(7, 0, true), thread(8, 1, false)];
    let expected = (8, "/w/train.py:9 step".to_owned());
    assert_eq!(hottest(&table, &threads), [expected]);
}

#[test]
fn indices_that_lead_nowhere_are_no_frames() {
    let broken = Table {
        frame_ids: vec![9],
        frames: Vec::new(),
        offsets: vec![0, 1, 70],
        strings: Vec::new(),
    };
    let threads = [thread(7, 0, true), thread(7, 1, true), thread(7, 5, true)];
    assert!(judge(&focus(), &broken, &threads).is_empty());
    assert!(judge(&focus(), &Table::default(), &threads).is_empty());
}
