//! What each launcher sets, as seen in real jobs, and what the rule makes of it.

use super::tests::Table;

/// The environment of a rank as `(name, value)`.
type Environment<'a> = Vec<(&'a str, String)>;

fn add(table: &mut Table, (pid, ppid): (u32, u32), cmdline: &[&str], environment: &Environment) {
    let environment: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    table.add(pid, ppid, cmdline, &environment);
}

/// Asserts that the ranks 0 to `count` have the PIDs 200 and so on, and that taking the last away makes it missing.
fn assert_told(table: Table, count: u32, group: &str) {
    let answer = table.judge();
    for rank in 0..count {
        let told = ["rank", "local-rank", "role", "group"].map(|key| answer.of(200 + rank, key));
        let rank = rank.to_string();
        assert_eq!(told, [&rank, &rank, "rank", group].map(str::to_owned));
    }
    assert_eq!(answer.of_group(group, "world-size"), count.to_string());
    assert_eq!(answer.claims(), []);
    let answer = table.without(200 + count - 1).judge();
    let missing = answer.of_group(group, "missing-ranks");
    assert_eq!(missing, (count - 1).to_string());
}

#[test]
fn accelerate_launches_as_torchrun_does_within_its_own_process() {
    let mut table = Table::torchrun(4);
    let launcher = ["python3", "/venv/bin/accelerate", "launch", "train.py"];
    table.process(100).cmdline = launcher.map(str::to_owned).to_vec();
    for pid in 200..204 {
        table.set(pid, "ACCELERATE_MIXED_PRECISION", "no");
    }
    assert_eq!(table.judge().of(100, "role"), "launcher");
    assert_told(table, 4, "127.0.0.1:29500");
}

/// `deepspeed` starts one `deepspeed.launcher.launch` on each node, which starts the ranks.
fn deepspeed(node: u32, nodes: u32) -> Table {
    let mut table = Table::default();
    table.add(90, 1, &["python3", "/venv/bin/deepspeed", "train.py"], &[]);
    let launch = [
        "python3",
        "-u",
        "-m",
        "deepspeed.launcher.launch",
        "train.py",
    ];
    table.add(100, 90, &launch, &[]);
    for local in 0..2 {
        let environment = vec![
            ("CROSS_RANK", node.to_string()),
            ("CROSS_SIZE", nodes.to_string()),
            ("LOCAL_RANK", local.to_string()),
            ("LOCAL_SIZE", "2".to_owned()),
            ("MASTER_ADDR", "10.0.0.1".to_owned()),
            ("MASTER_PORT", "29500".to_owned()),
            ("RANK", (node * 2 + local).to_string()),
            ("WORLD_SIZE", (nodes * 2).to_string()),
        ];
        let own = format!("--local_rank={local}");
        let command = ["python3", "-u", "train.py", &own];
        add(&mut table, (200 + local, 100), &command, &environment);
        // A data loader, which is the rank forked.
        add(
            &mut table,
            (300 + local, 200 + local),
            &command,
            &environment,
        );
    }
    table
}

#[test]
fn deepspeed_counts_nodes_by_names_of_its_own() {
    let table = deepspeed(0, 1);
    let answer = table.judge();
    let roles = [90, 100, 300].map(|pid| answer.of(pid, "role"));
    assert_eq!(roles, ["launcher", "launcher", "worker"]);
    assert_eq!(answer.of(90, "group"), "10.0.0.1:29500");
    assert_told(table.without(301), 2, "10.0.0.1:29500");

    let table = deepspeed(3, 8).without(301);
    let answer = table.judge();
    assert_eq!(
        (answer.of(200, "node"), answer.claims()),
        ("3".to_owned(), vec![])
    );
    let answer = table.without(201).judge();
    assert_eq!(
        answer.claims(),
        [("missing-ranks", "Rank 7 of 16 is not running.")]
    );
}

#[test]
fn open_mpi() {
    let mut table = Table::default();
    table.add(100, 1, &["mpirun", "-n", "3", "solve"], &[]);
    for rank in 0..3 {
        let environment = vec![
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3".to_owned()),
            ("OMPI_COMM_WORLD_NODE_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", "3".to_owned()),
            ("PMIX_NAMESPACE", "2049769473".to_owned()),
            ("PMIX_RANK", rank.to_string()),
        ];
        add(&mut table, (200 + rank, 100), &["solve"], &environment);
    }
    let answer = table.judge();
    assert_eq!(answer.of(100, "role"), "launcher");
    assert_eq!(answer.of(202, "node"), ""); // OMPI_COMM_WORLD_NODE_RANK is none
    assert_told(table, 3, "job");
}

#[test]
fn hydra_of_mpich_and_intel() {
    let mut table = Table::default();
    table.add(90, 1, &["mpiexec.hydra", "-n", "3", "solve"], &[]);
    table.add(
        100,
        90,
        &["/usr/bin/hydra_pmi_proxy", "--proxy-id", "0"],
        &[],
    );
    for rank in 0..3 {
        let environment = vec![
            ("MPI_LOCALNRANKS", "3".to_owned()),
            ("MPI_LOCALRANKID", rank.to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", "3".to_owned()),
        ];
        add(&mut table, (200 + rank, 100), &["solve"], &environment);
    }
    let answer = table.judge();
    let roles = [90, 100].map(|pid| answer.of(pid, "role"));
    assert_eq!(roles, ["launcher", "launcher"]);
    assert_told(table, 3, "job");
}

#[test]
fn pmix_alone_tells_ranks_and_no_size() {
    let mut table = Table::default();
    table.add(100, 1, &["prterun", "solve"], &[]);
    for rank in 0..2 {
        let environment = vec![
            ("PMIX_NAMESPACE", "prterun-n0-7@1".to_owned()),
            ("PMIX_RANK", rank.to_string()),
        ];
        add(&mut table, (200 + rank, 100), &["solve"], &environment);
    }
    let answer = table.judge();
    let told = ["rank", "group", "world-size"].map(|key| answer.of(201, key));
    assert_eq!(told, ["1", "prterun-n0-7@1", ""]);
    assert_eq!(table.without(201).judge().claims(), []);
}

/// A step of the Slurm job 77: two nodes with two ranks each and one with one, of which this is `node`.
fn slurm(node: u32) -> Table {
    let mut table = Table::default();
    table.add(100, 1, &["slurmstepd: [77.0]"], &[]);
    for local in 0..2_u32.min(5 - node * 2) {
        let environment = vec![
            ("SLURM_JOB_ID", "77".to_owned()),
            ("SLURM_LOCALID", local.to_string()),
            ("SLURM_NNODES", "4".to_owned()),
            ("SLURM_NODEID", node.to_string()),
            ("SLURM_NTASKS", "5".to_owned()),
            ("SLURM_PROCID", (node * 2 + local).to_string()),
            ("SLURM_STEP_ID", "0".to_owned()),
            ("SLURM_STEP_NUM_NODES", "3".to_owned()),
            ("SLURM_STEP_NUM_TASKS", "5".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x2),1".to_owned()),
        ];
        let command = ["python3", "train.py"];
        add(&mut table, (200 + local, 100), &command, &environment);
    }
    table
}

#[test]
fn a_step_of_slurm_is_a_job_and_its_list_places_the_ranks_of_a_node() {
    let table = slurm(1);
    let answer = table.judge();
    let told = ["rank", "local-rank", "node", "world-size", "group"];
    let told = told.map(|key| answer.of(201, key));
    assert_eq!(told, ["3", "1", "1", "5", "77.0"]);
    assert_eq!(answer.claims(), []);
    let answer = table.without(201).judge();
    assert_eq!(
        answer.claims(),
        [("missing-ranks", "Rank 3 of 5 is not running.")]
    );
    assert_eq!(slurm(2).judge().claims(), []);
}

#[test]
fn a_batch_script_of_slurm_and_what_it_starts_by_hand_are_no_ranks() {
    let batch = [
        ("SLURM_JOB_ID", "77"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NNODES", "2"),
        ("SLURM_NODEID", "0"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_PROCID", "0"),
    ];
    let mut table = Table::default();
    table.add(100, 1, &["/bin/bash", "slurm_script"], &batch);
    table.add(200, 100, &["python3", "prepare.py"], &batch);
    assert_eq!(table.judge().annotations, []);
}

#[test]
fn ray_train_sets_the_names_of_torchrun_below_its_raylet() {
    let mut table = Table::default();
    table.add(90, 1, &["python3", "driver.py"], &[]);
    table.add(100, 90, &["/ray/core/src/ray/raylet/raylet"], &[]);
    for rank in 0..2 {
        let environment = vec![
            ("LOCAL_RANK", rank.to_string()),
            ("LOCAL_WORLD_SIZE", "2".to_owned()),
            ("MASTER_ADDR", "10.0.0.1".to_owned()),
            ("MASTER_PORT", "41234".to_owned()),
            ("NODE_RANK", "0".to_owned()),
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "2".to_owned()),
        ];
        let title = ["ray::RayTrainWorker.execute"];
        add(&mut table, (200 + rank, 100), &title, &environment);
    }
    table.add(210, 100, &["ray::IDLE"], &[]);
    let answer = table.judge();
    let roles = [90, 100, 210].map(|pid| answer.of(pid, "role"));
    assert_eq!(roles, ["", "launcher", ""]);
    assert_told(table, 2, "10.0.0.1:41234");
}

#[test]
fn a_shell_that_translates_the_numbers_of_another_launcher_is_a_helper() {
    let mut table = Table::default();
    table.add(
        100,
        1,
        &["mpirun", "sh", "-c", "RANK=$PMI_RANK python3 train.py"],
        &[],
    );
    for rank in 0..3 {
        let outer = vec![
            ("MPI_LOCALNRANKS", "3".to_owned()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", "3".to_owned()),
        ];
        let mut inner = outer.clone();
        inner.extend([
            ("LOCAL_RANK", rank.to_string()),
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "3".to_owned()),
        ]);
        let script = ["sh", "-c", "RANK=$PMI_RANK python3 train.py"];
        add(&mut table, (300 + rank, 100), &script, &outer);
        let command = ["python3", "train.py"];
        add(&mut table, (200 + rank, 300 + rank), &command, &inner);
    }
    let answer = table.judge();
    let roles = [100, 300, 301, 200].map(|pid| answer.of(pid, "role"));
    assert_eq!(roles, ["launcher", "helper", "helper", "rank"]);
    assert_told(table, 3, "job");
}
