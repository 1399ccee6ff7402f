//! The rule on hand-made process tables.

use super::*;

/// A table of processes: PIDs are given, start times grow in the order of adding.
#[derive(Default)]
pub(super) struct Table(pub(super) Vec<Process>);

impl Table {
    /// taskscope's child `torchrun` (PID 100) and `count` ranks with the PIDs 200, 201, …
    pub(super) fn torchrun(count: u32) -> Self {
        let mut table = Self::default();
        table.add(100, 1, &["torchrun", "train.py"], &[]);
        for rank in 0..count {
            table.rank(200 + rank, 100, rank, count);
        }
        table
    }

    pub(super) fn add(
        &mut self,
        pid: u32,
        ppid: u32,
        cmdline: &[&str],
        environment: &[(&str, &str)],
    ) -> &mut Process {
        let environment = environment
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        self.0.push(Process {
            cmdline: cmdline
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
            environment: environment.collect(),
            name: cmdline.first().copied().unwrap_or_default().to_owned(),
            pid,
            ppid,
            python: cmdline
                .first()
                .is_some_and(|program| program.contains("python")),
            start_ticks: self.0.len() as u64,
            zombie: false,
        });
        self.0.last_mut().unwrap()
    }

    pub(super) fn rank(&mut self, pid: u32, ppid: u32, rank: u32, world: u32) -> &mut Process {
        let (rank, world) = (rank.to_string(), world.to_string());
        let environment = [
            ("RANK", rank.as_str()),
            ("LOCAL_RANK", &rank),
            ("WORLD_SIZE", &world),
            ("LOCAL_WORLD_SIZE", &world),
            ("GROUP_RANK", "0"),
            ("GROUP_WORLD_SIZE", "1"),
            ("MASTER_ADDR", "127.0.0.1"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "none"),
            ("TORCHELASTIC_RESTART_COUNT", "0"),
        ];
        self.add(pid, ppid, &["python3", "train.py"], &environment)
    }

    pub(super) fn set(&mut self, pid: u32, name: &str, value: &str) -> &mut Self {
        let environment = &mut self.process(pid).environment;
        environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn process(&mut self, pid: u32) -> &mut Process {
        self.0
            .iter_mut()
            .find(|process| process.pid == pid)
            .unwrap()
    }

    pub(super) fn without(mut self, pid: u32) -> Self {
        self.0.retain(|process| process.pid != pid);
        self
    }

    pub(super) fn judge(&self) -> Answer {
        judge(&self.0)
    }
}

impl Answer {
    fn text(&self, target: &Target, key: &str) -> Option<String> {
        let mut found = self
            .annotations
            .iter()
            .filter(|note| note.target == *target && note.key == key);
        let value = match &found.next()?.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
        };
        assert!(
            found.next().is_none(),
            "{key} was said twice about {target:?}"
        );
        Some(value)
    }

    pub(super) fn of(&self, pid: u32, key: &str) -> String {
        self.text(&Target::Process(pid), key).unwrap_or_default()
    }

    pub(super) fn of_group(&self, group: &str, key: &str) -> String {
        self.text(&Target::Group(group.to_owned()), key)
            .unwrap_or_default()
    }

    pub(super) fn claims(&self) -> Vec<(&str, &str)> {
        self.findings
            .iter()
            .map(|finding| (finding.kind, finding.message.as_str()))
            .collect()
    }
}

const GROUP: &str = "127.0.0.1:29500";

#[test]
fn every_rank_of_a_healthy_job_is_named_and_nothing_is_claimed() {
    let answer = Table::torchrun(4).judge();
    for rank in 0..4 {
        let pid = 200 + rank;
        assert_eq!(answer.of(pid, "rank"), rank.to_string());
        assert_eq!(answer.of(pid, "local-rank"), rank.to_string());
        assert_eq!(
            (answer.of(pid, "world-size"), answer.of(pid, "node")),
            ("4".to_owned(), "0".to_owned())
        );
        assert_eq!(
            (answer.of(pid, "role"), answer.of(pid, "group")),
            ("rank".to_owned(), GROUP.to_owned())
        );
    }
    assert_eq!(
        (answer.of(100, "role"), answer.of(100, "rank")),
        ("launcher".to_owned(), String::new())
    );
    assert_eq!(answer.of_group(GROUP, "world-size"), "4");
    assert_eq!(answer.claims(), []);
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "");
}

#[test]
fn no_processes_and_no_ranks_say_nothing() {
    assert_eq!(judge(&[]), Answer::default());
    let mut table = Table::default();
    table.add(100, 1, &["python3", "train.py"], &[]);
    table.add(
        101,
        100,
        &["sleep", "1"],
        &[("RANK", "one"), ("WORLD_SIZE", "-3")],
    );
    assert_eq!(table.judge(), Answer::default());
}

#[test]
fn a_missing_rank_is_claimed_with_evidence() {
    let answer = Table::torchrun(4).without(202).judge();
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "2");
    assert_eq!(
        answer.claims(),
        [("missing-ranks", "Rank 2 of 4 is not running.")]
    );
    let evidence: Vec<(&str, &str)> = answer.findings[0]
        .evidence
        .iter()
        .map(|(pointer, value)| (pointer.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        evidence,
        [
            ("/processes/1/distributed_environment/WORLD_SIZE", "\"4\""),
            (
                "/processes/1/distributed_environment/LOCAL_WORLD_SIZE",
                "\"4\""
            ),
        ]
    );
}

#[test]
fn several_missing_ranks_are_ranges() {
    let mut table = Table::torchrun(8);
    for pid in [200, 201, 202, 205] {
        table = table.without(pid);
    }
    let answer = table.judge();
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "0-2,5");
    assert_eq!(
        answer.claims(),
        [("missing-ranks", "Ranks 0-2,5 of 8 are not running.")]
    );
}

#[test]
fn what_inherits_a_rank_is_its_worker_and_no_duplicate() {
    let mut table = Table::torchrun(2);
    table.rank(300, 201, 1, 2);
    table.rank(301, 300, 1, 2);
    let answer = table.judge();
    for pid in [300, 301] {
        assert_eq!(
            (answer.of(pid, "role"), answer.of(pid, "rank")),
            ("worker".to_owned(), "1".to_owned())
        );
    }
    assert_eq!(answer.of(201, "role"), "rank");
    assert_eq!(answer.claims(), []);
}

#[test]
fn what_a_rank_started_is_a_worker_or_a_helper() {
    let mut table = Table::torchrun(1);
    let spawn = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)";
    let server = "from multiprocessing.forkserver import main; main(3, 4)";
    let commands: [(u32, u32, &[&str]); 7] = [
        (
            300,
            200,
            &["python3", "-c", spawn, "--multiprocessing-fork"],
        ),
        (301, 200, &["python3", "-c", server]),
        (302, 301, &["python3", "-c", server]),
        (
            303,
            200,
            &[
                "python3",
                "-c",
                "from multiprocessing.resource_tracker import main",
            ],
        ),
        (304, 200, &["python3", "-m", "wandb.sdk.service"]),
        (305, 200, &["nvidia-smi", "-q"]),
        (306, 200, &["yolo detect train"]),
    ];
    for (pid, ppid, cmdline) in commands {
        let process = table.rank(pid, ppid, 0, 1);
        process.cmdline = cmdline.iter().map(|&part| part.to_owned()).collect();
    }
    table.process(306).name = "pt_data_worker".to_owned();
    let answer = table.judge();
    let roles = [300, 301, 302, 303, 304, 305, 306].map(|pid| answer.of(pid, "role"));
    let expected = [
        "worker", "helper", "worker", "helper", "helper", "helper", "worker",
    ];
    assert_eq!(roles, expected);
    assert_eq!(answer.claims(), []);
}

#[test]
fn a_process_without_an_environment_is_of_its_parents_rank() {
    let mut table = Table::torchrun(2);
    table.add(300, 201, &["env", "-i", "tool"], &[]);
    table.add(301, 300, &["tool"], &[]);
    table.add(302, 100, &["sleep", "1"], &[]);
    let answer = table.judge();
    for pid in [300, 301] {
        assert_eq!(
            (answer.of(pid, "role"), answer.of(pid, "rank")),
            ("helper".to_owned(), "1".to_owned())
        );
    }
    assert_eq!(answer.of(302, "role"), "");
    assert_eq!(answer.claims(), []);
}

#[test]
fn workers_that_a_dead_rank_left_behind_do_not_stand_for_it() {
    let mut table = Table::torchrun(4).without(202);
    table.rank(300, 1, 2, 4);
    table.rank(301, 1, 2, 4);
    let answer = table.judge();
    assert_eq!(answer.of(300, "role"), "worker");
    assert_eq!(
        answer.claims(),
        [("missing-ranks", "Rank 2 of 4 is not running.")]
    );
}

#[test]
fn two_processes_with_one_rank_are_duplicates() {
    let mut table = Table::torchrun(4);
    table.rank(300, 100, 1, 4);
    let answer = table.judge();
    assert_eq!(answer.of_group(GROUP, "duplicate-ranks"), "1");
    assert_eq!(
        answer.claims(),
        [(
            "duplicate-ranks",
            "Rank 1: more than one process, such as PID 201 and 300."
        )]
    );
    let pointers: Vec<&str> = answer.findings[0]
        .evidence
        .iter()
        .map(|(pointer, _)| pointer.as_str())
        .collect();
    assert_eq!(
        pointers,
        [
            "/processes/2/distributed_environment/RANK",
            "/processes/5/distributed_environment/RANK"
        ]
    );
}

#[test]
fn another_program_with_the_rank_of_a_sibling_is_no_duplicate() {
    let mut table = Table::torchrun(2);
    table.rank(300, 100, 1, 2).cmdline =
        vec!["python3".to_owned(), "-m".to_owned(), "wandb".to_owned()];
    assert_eq!(table.judge().claims(), []);
}

#[test]
fn a_rank_between_fork_and_exec_is_neither_missing_nor_a_duplicate() {
    for cmdline in [&["torchrun", "train.py"][..], &["python3", "train.py"], &[]] {
        let mut table = Table::torchrun(4).without(203);
        table.add(300, 100, cmdline, &[]);
        let answer = table.judge();
        assert_eq!(answer.claims(), [], "{cmdline:?}");
        assert_eq!(answer.of(300, "rank"), "");
    }
}

#[test]
fn another_child_of_the_launcher_does_not_hide_a_missing_rank() {
    let mut table = Table::torchrun(4).without(203);
    table.add(
        300,
        100,
        &["python3", "-m", "multiprocessing.resource_tracker"],
        &[],
    );
    assert_eq!(table.judge().of_group(GROUP, "missing-ranks"), "3");
}

#[test]
fn a_zombie_is_a_rank_that_does_not_run() {
    let mut table = Table::torchrun(4);
    table.process(203).zombie = true;
    let answer = table.judge();
    assert_eq!(
        (answer.of(203, "rank"), answer.of(203, "role")),
        ("3".to_owned(), "rank".to_owned())
    );
    assert_eq!(
        answer.claims(),
        [(
            "missing-ranks",
            "Rank 3 of 4 is not running; ended and not reaped: PID 203."
        )]
    );
    assert!(
        answer.findings[0]
            .evidence
            .contains(&("/processes/4/state".to_owned(), "\"Z\"".to_owned()))
    );
}

#[test]
fn a_zombie_without_environment_is_named_beside_the_missing_rank() {
    let mut table = Table::torchrun(4);
    let zombie = table.process(203);
    (zombie.zombie, zombie.environment, zombie.cmdline) = (true, BTreeMap::new(), Vec::new());
    let answer = table.judge();
    assert_eq!(
        answer.claims(),
        [(
            "missing-ranks",
            "Rank 3 of 4 is not running; ended and not reaped: PID 203."
        )]
    );
}

#[test]
fn a_job_of_zombies_is_over_and_nothing_is_missing() {
    let mut table = Table::torchrun(2);
    for pid in [200, 201] {
        table.process(pid).zombie = true;
    }
    assert_eq!(table.judge().claims(), []);
}

/// Two ranks a node, `world` in all, of which this is node `node`.
fn node(node: u32, world: u32) -> Table {
    let mut table = Table::torchrun(2);
    for local in 0..2 {
        let pid = 200 + local;
        table
            .set(pid, "RANK", &(node * 2 + local).to_string())
            .set(pid, "LOCAL_RANK", &local.to_string())
            .set(pid, "WORLD_SIZE", &world.to_string())
            .set(pid, "GROUP_RANK", &node.to_string())
            .set(pid, "GROUP_WORLD_SIZE", &(world / 2).to_string());
    }
    table
}

#[test]
fn ranks_of_other_nodes_are_not_missing() {
    let answer = node(1, 8).judge();
    assert_eq!(answer.claims(), []);
    assert_eq!(
        (answer.of(200, "node"), answer.of(200, "rank")),
        ("1".to_owned(), "2".to_owned())
    );
}

#[test]
fn a_rank_of_this_node_is_missing_among_many_nodes() {
    let answer = node(1, 8).without(201).judge();
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "3");
}

#[test]
fn the_node_number_places_ranks_that_do_not_say_their_local_one() {
    let mut table = node(1, 8);
    table.process(200).environment.remove("LOCAL_RANK");
    assert_eq!(
        table.without(201).judge().of_group(GROUP, "missing-ranks"),
        "3"
    );
}

#[test]
fn several_nodes_without_a_local_size_claim_nothing() {
    let mut table = node(1, 8);
    table.process(200).environment.remove("LOCAL_WORLD_SIZE");
    assert_eq!(table.without(201).judge().claims(), []);
}

#[test]
fn two_agents_of_one_job_on_this_machine_are_two_nodes_of_one_group() {
    let mut table = node(0, 4);
    for process in node(1, 4).0 {
        let (pid, ppid) = (process.pid + 1_000, process.ppid);
        let ppid = if ppid == 1 { 1 } else { ppid + 1_000 };
        table.0.push(Process {
            pid,
            ppid,
            ..process
        });
    }
    assert_eq!(table.judge().claims(), []);
    let answer = table.without(1_201).judge();
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "3");
}

#[test]
fn two_jobs_in_one_task_are_two_groups() {
    let mut table = Table::torchrun(2);
    table.add(500, 1, &["torchrun", "other.py"], &[]);
    for rank in 0..2 {
        table.rank(600 + rank, 500, rank, 2);
        table.set(600 + rank, "MASTER_PORT", "29501");
    }
    let answer = table.without(601).judge();
    assert_eq!(answer.of(600, "group"), "127.0.0.1:29501");
    assert_eq!(answer.of(201, "group"), GROUP);
    assert_eq!(answer.of_group("127.0.0.1:29501", "missing-ranks"), "1");
    assert_eq!(answer.of_group(GROUP, "missing-ranks"), "");
}

#[test]
fn the_run_id_names_the_group_and_the_port_tells_two_apart() {
    let mut table = Table::torchrun(2);
    table
        .set(200, "TORCHELASTIC_RUN_ID", "nightly")
        .set(201, "TORCHELASTIC_RUN_ID", "nightly");
    assert_eq!(table.judge().of(200, "group"), "nightly");
    table.set(201, "MASTER_PORT", "29501");
    assert_eq!(
        table.judge().of(201, "group"),
        "nightly (127.0.0.1:29501, restart 0)"
    );
}

#[test]
fn leftovers_of_a_restarted_job_are_not_called_incomplete() {
    let mut table = Table::torchrun(2).without(201);
    for rank in 0..2 {
        table.rank(300 + rank, 100, rank, 2);
        table.set(300 + rank, "TORCHELASTIC_RESTART_COUNT", "1");
    }
    assert_eq!(table.judge().claims(), []);
}

#[test]
fn attaching_to_one_rank_does_not_make_the_others_missing() {
    let table = Table::torchrun(4)
        .without(100)
        .without(200)
        .without(202)
        .without(203);
    let answer = table.judge();
    assert_eq!(
        (answer.of(201, "rank"), answer.of(201, "role")),
        ("1".to_owned(), "rank".to_owned())
    );
    assert_eq!(answer.claims(), []);
}

#[test]
fn a_lone_rank_started_by_hand_does_not_make_the_others_missing() {
    let mut table = Table::default();
    table.add(100, 1, &["bash", "run.sh"], &[]);
    table.add(
        200,
        100,
        &["python3", "train.py"],
        &[("RANK", "2"), ("WORLD_SIZE", "4")],
    );
    assert_eq!(table.judge().claims(), []);
    table.add(
        201,
        100,
        &["python3", "train.py"],
        &[("RANK", "1"), ("WORLD_SIZE", "4")],
    );
    assert_eq!(table.judge().of_group("job", "missing-ranks"), "0,3");
}

#[test]
fn a_shell_around_a_rank_is_a_helper() {
    let mut table = Table::torchrun(2);
    table.process(200).cmdline = vec!["bash".to_owned(), "wrap.sh".to_owned()];
    (table.process(200).python, table.process(200).name) = (false, "bash".to_owned());
    table.rank(300, 200, 0, 2);
    table.rank(301, 300, 0, 2);
    let answer = table.judge();
    let roles = [200, 300, 301].map(|pid| answer.of(pid, "role"));
    assert_eq!(roles, ["helper", "rank", "worker"]);
    assert_eq!(answer.of(100, "role"), "launcher");
    assert_eq!(answer.claims(), []);
}

#[test]
fn a_launcher_whose_own_rank_numbers_nodes_is_a_launcher() {
    let mut table = Table::torchrun(2);
    table
        .set(100, "RANK", "0")
        .set(100, "WORLD_SIZE", "3")
        .set(100, "MASTER_ADDR", "127.0.0.1");
    table.set(100, "MASTER_PORT", "29500");
    let answer = table.judge();
    assert_eq!(
        (answer.of(100, "role"), answer.of(100, "rank")),
        ("launcher".to_owned(), String::new())
    );
    assert_eq!(answer.of(201, "role"), "rank");
}

#[test]
fn ranks_that_disagree_about_the_world_claim_nothing_missing() {
    let mut table = Table::torchrun(3);
    table.set(202, "WORLD_SIZE", "5");
    let answer = table.without(201).judge();
    assert_eq!(
        (answer.claims(), answer.of_group(GROUP, "world-size")),
        (vec![], String::new())
    );
}

#[test]
fn a_circle_of_parents_ends() {
    let mut table = Table::torchrun(2);
    table.process(100).ppid = 200;
    table.rank(300, 301, 1, 2);
    table.rank(301, 300, 1, 2);
    assert_eq!(table.judge().of(200, "rank"), "0");
}

#[test]
fn odd_values_are_quoted_as_json() {
    assert_eq!(json_text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
}
