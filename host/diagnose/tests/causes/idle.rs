//! Those who wait for work, for a time or for others to come look like those who hang. None of them is called hung; who cannot be
//! woken by anybody is.

use std::collections::BTreeMap;

use model::{FileDescriptor, MountPurpose, Process, Snapshot};
use taskscope_diagnose::{Cause, State};

use crate::story::{
    Doing, Shot, add_thread, ask, call, descriptor, expect, futex, on, polls, runs, story,
    waits_for,
};

const COUNT: u32 = 8;
/// What Python catches by itself: SIGINT.
const OF_PYTHON: u64 = 1 << 1;
const TERMINATED: u64 = 1 << 14;
const CHILD_ENDED: u64 = 1 << 16;

/// Asserts that no answer, after whichever snapshot, is that it hangs or has failed.
#[track_caller]
fn never_hung(snapshots: &[Snapshot]) {
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        let fine = matches!(verdict.verdict, State::Healthy | State::Unknown);
        assert!(fine, "after {count}: {}", verdict.summary);
    }
}

/// A loop that waits for events of descriptors.
fn watches() -> Doing {
    let mut doing = on("epoll_wait", 4, "anon_inode:[eventpoll]").at(&[
        "select /usr/lib/python3.11/selectors.py 468",
        "run_forever /usr/lib/python3.11/asyncio/base_events.py 607",
        "main app.py 9",
    ]);
    doing.call.timeout = Some(model::CallTimeout::Infinite);
    doing
}

/// The epoll of such a loop, which has these descriptors, and the signals that the process catches.
fn registers(process: &mut Process, targets: &[(i32, &str)], caught: u64) {
    let lines = targets.iter().enumerate().map(|(index, (fd, _))| {
        let key = match index {
            0 => "tfd".to_owned(),
            _ => format!("tfd#{}", index + 1),
        };
        (key, format!("{fd} events:       19 data: {fd}  pos:0"))
    });
    let info: BTreeMap<String, String> = lines.collect();
    process.proc.file_descriptors.push(FileDescriptor {
        fd: "4".to_owned(),
        info: Some(info),
        target: "anon_inode:[eventpoll]".to_owned(),
    });
    for (fd, target) in targets {
        descriptor(process, *fd, target);
    }
    let mask = format!("{caught:016x}");
    process.proc.status.insert("SigCgt".to_owned(), mask);
}

/// A loop that only it could wake: the two sockets that it wakes itself by.
fn loop_of_its_own(shot: &mut Shot, caught: u64) -> &mut Process {
    shot.unix(("socket:[5]", 10), ("socket:[6]", 10));
    let process = shot.process(10, 1, &watches());
    registers(process, &[(5, "socket:[5]")], caught);
    process
}

fn listens(shot: &mut Shot, target: &str, pid: i32) {
    shot.tcp(
        target,
        &[pid],
        ("127.0.0.1:80", "0.0.0.0:0", "listen"),
        None,
    );
}

#[test]
fn a_loop_of_asyncio_that_nobody_can_wake() {
    let snapshots = story(COUNT, |_, shot| {
        loop_of_its_own(shot, OF_PYTHON);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
    assert!(verdict.summary.contains("itself"), "{}", verdict.summary);
}

#[test]
fn a_loop_of_asyncio_that_a_signal_a_thread_or_a_client_may_wake() {
    never_hung(&story(COUNT, |_, shot| {
        loop_of_its_own(shot, OF_PYTHON | TERMINATED);
    }));
    never_hung(&story(COUNT, |_, shot| {
        let process = loop_of_its_own(shot, OF_PYTHON);
        add_thread(process, 11, &polls(0).at(&["fetch app.py 20"]));
    }));
    let with_clients = story(COUNT, |_, shot| {
        shot.unix(("socket:[5]", 10), ("socket:[6]", 10));
        let process = shot.process(10, 1, &watches());
        let targets = [(5, "socket:[5]"), (6, "socket:[7]")];
        registers(process, &targets, OF_PYTHON);
        listens(shot, "socket:[7]", 10);
    });
    never_hung(&with_clients);
    // One that watches its only socket by `select`.
    never_hung(&story(COUNT, |_, shot| {
        let process = shot.process(10, 1, &call("pselect6").of_fds(&[6]));
        descriptor(process, 6, "socket:[7]");
        listens(shot, "socket:[7]", 10);
    }));
    assert_eq!(ask(&with_clients).verdict, State::Healthy);
}

#[test]
fn a_loop_of_asyncio_and_its_child_that_wait_for_each_other() {
    let snapshots = story(COUNT, |_, shot| {
        let process = shot.process(10, 1, &watches());
        registers(process, &[(5, "pipe:[1]")], OF_PYTHON);
        shot.process(20, 10, &on("read", 0, "pipe:[2]").at(&["main tool.py 3"]));
        shot.pipe("pipe:[1]", &[10], &[20], 0);
        shot.pipe("pipe:[2]", &[20], &[10], 0);
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
}

#[test]
fn workers_that_wait_for_a_scheduler_to_give_them_work() {
    let reads = on("recvfrom", 3, "socket:[20]").at(&["work worker.py 8"]);
    let snapshots = story(COUNT, |_, shot| {
        let scheduler = shot.process(10, 1, &watches());
        let targets = [(5, "socket:[7]"), (6, "socket:[10]")];
        registers(scheduler, &targets, OF_PYTHON);
        shot.process(20, 10, &reads);
        shot.unix(("socket:[10]", 10), ("socket:[20]", 20));
        listens(shot, "socket:[7]", 10);
    });
    never_hung(&snapshots);
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_client_whose_service_has_forgotten_it() {
    // It accepts others, and looks at this connection no more.
    let snapshots = story(COUNT, |_, shot| {
        let doing = call("accept4").at(&["serve server.py 5"]);
        shot.process(10, 1, &doing);
        let doing = on("recvfrom", 3, "socket:[20]").at(&["ask client.py 8"]);
        shot.process(20, 10, &doing);
        shot.unix(("socket:[10]", 10), ("socket:[20]", 20));
        for endpoint in &mut shot.snapshot.ipc.endpoints {
            if let (Some(unix), "socket:[10]") = (&mut endpoint.unix, endpoint.target.as_str()) {
                unix.path = Some("/run/service".to_owned());
            }
        }
        listens(shot, "socket:[7]", 10);
    });
    expect(&snapshots, State::Hung, Cause::WaitingForPeer, Some(10));
}

#[test]
fn a_helper_that_reads_what_a_service_may_give_it() {
    never_hung(&story(COUNT, |_, shot| {
        let doing = call("accept4").at(&["serve server.py 5"]);
        shot.process(10, 1, &doing);
        shot.process(20, 10, &on("read", 0, "pipe:[1]").at(&["main tool.py 3"]));
        shot.pipe("pipe:[1]", &[20], &[10], 0);
    }));
}

#[test]
fn a_service_of_threads_under_a_supervisor() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        let waits = [
            "wait /usr/lib/python3.11/threading.py 327",
            "Event.wait /usr/lib/python3.11/threading.py 629",
            "main server.py 40",
        ];
        let process = shot.process(20, 10, &futex("0x1").at(&waits));
        add_thread(process, 21, &call("accept4").at(&["serve server.py 5"]));
        add_thread(process, 22, &call("epoll_wait").at(&["watch server.py 9"]));
    });
    never_hung(&snapshots);
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_reader_of_a_child_that_waits_for_a_while_for_something() {
    never_hung(&story(COUNT, |_, shot| {
        shot.process(10, 1, &on("read", 3, "pipe:[1]").at(&["main app.py 3"]));
        let doing = call("poll").of_fds(&[5]).for_a_while();
        shot.process(20, 10, &doing.at(&["fetch tool.py 3"]));
        shot.pipe("pipe:[1]", &[10], &[20], 0);
    }));
}

/// The other one may be stuck or paced; one that writes now and then gets somewhere.
#[test]
fn one_that_waits_for_who_looks_again_and_writes_a_little() {
    let told = |bytes: u32| {
        story(COUNT, |instant, shot| {
            shot.process(10, 1, &call("flock").at(&["locked build.py 13"]));
            let holder = shot.process(20, 10, &polls(instant).at(&["pace build.py 20"]));
            let written = (instant * bytes).to_string();
            holder.proc.io.insert("wchar".to_owned(), written);
            holder.proc.io.insert("rchar".to_owned(), "0".to_owned());
            shot.lock("/w/index", 20, &[10]);
        })
    };
    expect(&told(0), State::Hung, Cause::FileLock, Some(20));
    never_hung(&told(20));
}

#[test]
fn a_loop_with_children_that_ended_well_and_one_that_sleeps_or_serves_with_others() {
    never_hung(&story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main simulation.py 21"]));
        shot.zombie(20, 10, Some(0), None);
    }));
    for doing in [polls(0), call("accept4"), call("epoll_wait")] {
        never_hung(&story(COUNT, |_, shot| {
            shot.process(10, 1, &doing.clone().at(&["main cron.py 21"]));
            listens(shot, "socket:[7]", 10);
            shot.zombie(20, 10, Some(1), None);
        }));
    }
}

#[test]
fn a_loop_beside_a_full_disk_that_writes_nothing() {
    never_hung(&story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["main simulation.py 20"]));
        process.proc.io.insert("syscw".to_owned(), "7".to_owned());
        shot.mount("/work", MountPurpose::WorkingDirectory, 0, 1 << 30);
    }));
}

#[test]
fn a_child_that_is_at_work_for_a_moment_when_it_is_looked_at() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        let place = ["compress app.py 20"];
        let doing = match instant % 3 {
            1 => {
                let mut doing = runs(0).at(&place);
                doing.ran = u64::from(instant) * 10;
                doing
            }
            _ => polls(instant).at(&place),
        };
        shot.process(20, 10, &doing);
    });
    never_hung(&snapshots);
    for count in 3..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        assert_eq!(verdict.verdict, State::Healthy, "{}", verdict.summary);
    }
}

/// The result of a future that a thread fetches from elsewhere: data come now and then, or never.
#[test]
fn a_thread_that_reads_for_who_waits_for_its_result() {
    let told = |comes: bool| {
        story(18, |instant, shot| {
            let result = [
                "wait /usr/lib/python3.11/threading.py 320",
                "result /usr/lib/python3.11/concurrent/futures/_base.py 451",
                "main app.py 40",
            ];
            let process = shot.process(10, 1, &futex("0x1").at(&result));
            let ran = if comes { instant * 10 } else { 0 };
            let reads = on("recvfrom", 5, "socket:[1]").at(&["fetch app.py 10"]);
            add_thread(process, 11, &reads.ran_until(ran).named("fetcher"));
            let idle = ["_worker /usr/lib/python3.11/concurrent/futures/thread.py 81"];
            add_thread(process, 12, &futex("0x2").at(&idle));
            let facts = ("10.0.0.1:5000", "10.0.0.2:443", "established");
            shot.tcp("socket:[1]", &[10], facts, None);
        })
    };
    never_hung(&told(true));
    let verdict = expect(&told(false), State::Hung, Cause::WaitingForPeer, Some(10));
    assert_eq!(verdict.culprit.unwrap().thread, Some(11));
}

/// `tail -f` waits for what happens to files, a helper for what its parent may want; `cat` for output of one that is paced.
#[test]
fn those_who_read_from_who_waits_for_the_world() {
    never_hung(&story(COUNT, |_, shot| {
        shot.process(10, 1, &on("read", 3, "pipe:[1]").at(&["main app.py 3"]));
        let process = shot.process(20, 10, &call("poll").of_fds(&[4, 1]));
        descriptor(process, 4, "anon_inode:inotify");
        descriptor(process, 1, "pipe:[1]");
        shot.pipe("pipe:[1]", &[10], &[20], 0);
    }));
    never_hung(&story(COUNT, |_, shot| {
        shot.process(10, 1, &on("read", 3, "pipe:[1]").at(&["main app.py 3"]));
        shot.process(20, 10, &on("read", 4, "anon_inode:inotify"));
        shot.pipe("pipe:[1]", &[10], &[20], 0);
    }));
    never_hung(&story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20));
        shot.process(20, 10, &on("read", 0, "pipe:[1]"));
        shot.process(21, 10, &polls(instant).at(&["pace simulation.py 20"]));
        shot.pipe("pipe:[1]", &[20], &[21], 0);
    }));
    never_hung(&story(COUNT, |_, shot| {
        shot.process(10, 1, &call("accept4").at(&["serve app.py 3"]));
        let waits = on("read", 5, "socket:[2]").at(&["recv worker.py 9"]);
        shot.process(20, 10, &waits);
        shot.unix(("socket:[1]", 10), ("socket:[2]", 20));
    }));
}

/// Idle workers of a pool read what nobody writes, while one of them looks again and again for what it was given to do.
#[test]
fn an_idle_worker_beside_one_that_polls() {
    never_hung(&story(COUNT, |instant, shot| {
        let waits = [
            "wait /usr/lib/python3.11/threading.py 320",
            "get /usr/lib/python3.11/multiprocessing/pool.py 762",
            "main app.py 40",
        ];
        shot.process(10, 1, &futex("0x1").at(&waits));
        shot.process(20, 10, &on("read", 3, "pipe:[1]").at(&["get queues.py 9"]));
        shot.process(21, 10, &polls(instant).at(&["fetch app.py 9"]));
        shot.pipe("pipe:[1]", &[20, 21], &[10], 0);
    }));
}

/// The pipe of a command is held open by what it left behind, which sleeps: no ended child is the matter.
#[test]
fn the_end_of_output_that_a_grandchild_holds_open() {
    never_hung(&story(COUNT, |_, shot| {
        shot.process(10, 1, &on("read", 3, "pipe:[1]").at(&["run app.py 3"]));
        shot.zombie(20, 10, Some(0), None);
        shot.process(21, 1, &polls(0));
        shot.pipe("pipe:[1]", &[10], &[21], 0);
    }));
}

/// News of a service that is not watched come when there are some; an answer to a question may be long in coming.
#[test]
fn one_that_is_told_news_from_outside_and_one_that_has_asked() {
    let told = |said_ms: u32, heard_ms: u32| {
        story(18, |_, shot| {
            let reads = on("recvfrom", 5, "socket:[1]").at(&["listen client.py 10"]);
            shot.process(10, 1, &reads);
            let facts = ("10.0.0.1:5000", "10.0.0.2:443", "established");
            shot.tcp("socket:[1]", &[10], facts, None);
            let tcp = shot.snapshot.ipc.endpoints[0].tcp.as_mut().unwrap();
            (tcp.bytes_acknowledged, tcp.bytes_received) = (Some(100), Some(100));
            (tcp.last_sent_ms, tcp.last_received_ms) = (Some(said_ms), Some(heard_ms));
        })
    };
    never_hung(&told(19_000, 18_000));
    let asked = told(18_000, 19_000);
    never_hung(&asked[..15]);
    expect(&asked, State::Hung, Cause::WaitingForPeer, Some(10));
}

/// `make -j` waits for a free place in a pipe that it holds both ends of, and for the end of a child, of which a signal tells it.
#[test]
fn one_that_waits_at_its_own_pipe_and_is_told_of_its_children() {
    let told = |caught: u64, child_works: bool| {
        story(COUNT, |instant, shot| {
            let make = shot.process(10, 1, &call("pselect6").of_fds(&[3]));
            descriptor(make, 3, "pipe:[1]");
            let mask = format!("{caught:016x}");
            make.proc.status.insert("SigCgt".to_owned(), mask);
            shot.pipe("pipe:[1]", &[10], &[10], 0);
            if child_works {
                shot.process(20, 10, &runs(instant).named("cc1"));
            }
        })
    };
    never_hung(&told(CHILD_ENDED, true));
    expect(
        &told(CHILD_ENDED, false),
        State::Hung,
        Cause::PipeOrphaned,
        Some(10),
    );
    expect(
        &told(OF_PYTHON, true),
        State::Hung,
        Cause::PipeOrphaned,
        Some(10),
    );
}

/// Another thread of the process writes to its pipe when it has something.
#[test]
fn one_that_waits_at_its_own_pipe_for_a_thread_of_its_own() {
    never_hung(&story(COUNT, |_, shot| {
        let main = on("read", 3, "pipe:[1]").at(&["collect app.py 9"]);
        let process = shot.process(10, 1, &main);
        add_thread(process, 11, &polls(0).at(&["fetch app.py 20"]));
        shot.pipe("pipe:[1]", &[10], &[10], 0);
    }));
}

/// Python's own prompt is there for who types; a question of a program is one that a batch job cannot answer.
#[test]
fn the_prompt_of_python_at_a_terminal() {
    let told = |frames: &[&str]| {
        story(COUNT, |_, shot| {
            let reads = call("pselect6").of_fds(&[0]).at(&["main app.py 3"]);
            let process = shot.process(10, 1, &reads);
            descriptor(process, 0, "/dev/pts/3");
            let places = call("").at(frames);
            let mut other = shot.process(99, 10, &places).pyspy.take();
            shot.snapshot.processes.pop();
            let process = shot.snapshot.processes.last_mut().unwrap();
            let trace = &mut process.pyspy.as_mut().unwrap().traces[0];
            trace.frames = other
                .as_mut()
                .map_or_else(Vec::new, |it| it.traces[0].frames.clone());
        })
    };
    let prompt = told(&[]);
    never_hung(&prompt);
    assert_eq!(ask(&prompt).verdict, State::Healthy);
    never_hung(&told(&[
        "wait /usr/lib/python3.13/_pyrepl/unix_console.py 5",
        "interactive_console /usr/lib/python3.13/_pyrepl/main.py 59",
    ]));
    expect(
        &told(&["ask app.py 3"]),
        State::Hung,
        Cause::WaitingForInput,
        Some(10),
    );
    let debugger = [
        "cmdloop /usr/lib/python3.11/cmd.py 126",
        "interaction /usr/lib/python3.11/pdb.py 400",
        "main app.py 3",
    ];
    expect(
        &told(&debugger),
        State::Hung,
        Cause::WaitingForInput,
        Some(10),
    );
}

/// Who waits for those that rest is well, also where they hold copies of each other's connections, as forked children do.
#[test]
fn actors_that_wait_for_a_driver_that_sleeps() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &polls(0).at(&["drive app.py 3"]));
        for pid in [20, 21] {
            let own = format!("socket:[{pid}]");
            shot.process(pid, 10, &on("read", 5, &own).at(&["recv app.py 9"]));
            let peer = format!("socket:[{}]", pid + 100);
            shot.unix((&own, pid), (&peer, 10));
            let owners = &mut shot.snapshot.ipc.endpoints.last_mut().unwrap().owners;
            let mut copy = owners[0].clone();
            let other = if pid == 20 { 21 } else { 20 };
            (copy.pid, copy.identity) = (other, crate::story::identity(other));
            owners.push(copy);
        }
    });
    never_hung(&snapshots);
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

/// A result of a pool that a worker sleeps for; a timer; news of the kernel.
#[test]
fn those_who_wait_for_a_time_through_others() {
    let pool = story(COUNT, |_, shot| {
        let waits = [
            "wait /usr/lib/python3.11/threading.py 320",
            "next /usr/lib/python3.11/multiprocessing/pool.py 861",
            "main app.py 40",
        ];
        shot.process(10, 1, &futex("0x1").at(&waits));
        shot.process(20, 10, &on("read", 3, "pipe:[1]").at(&["get queues.py 9"]));
        shot.process(21, 10, &polls(0).at(&["pause app.py 9"]));
        shot.pipe("pipe:[1]", &[20, 21], &[10], 0);
    });
    let timer = story(COUNT, |_, shot| {
        let joins = ["_shutdown /usr/lib/python3.11/threading.py 1560"];
        let process = shot.process(10, 1, &futex("0x1").at(&joins));
        let waits = [
            "Condition.wait /usr/lib/python3.11/threading.py 331",
            "Event.wait /usr/lib/python3.11/threading.py 629",
            "Timer.run /usr/lib/python3.11/threading.py 1376",
        ];
        add_thread(process, 11, &futex("0x2").for_a_while().at(&waits));
    });
    let news = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &on("read", 4, "anon_inode:inotify").at(&["watch app.py 4"]),
        );
    });
    for snapshots in [pool, timer, news] {
        never_hung(&snapshots);
        assert_eq!(
            ask(&snapshots).verdict,
            State::Healthy,
            "{}",
            ask(&snapshots).summary
        );
    }
}

/// A shell that waits for the next command, of which a terminal in a browser has one; one that a script asks with is no prompt.
#[test]
fn the_prompt_of_a_shell_at_a_terminal() {
    let told = |command: &[&str]| {
        story(COUNT, |_, shot| {
            let parent = on("read", 3, "/dev/ptmx").at(&["relay terminal.py 3"]);
            shot.process(10, 1, &parent);
            let shell = shot.process(20, 10, &call("pselect6").of_fds(&[0]));
            shell.cmdline = command.iter().map(|word| (*word).to_owned()).collect();
            descriptor(shell, 0, "/dev/pts/3");
        })
    };
    for command in [&["-bash"][..], &["/bin/zsh", "-i"]] {
        let snapshots = told(command);
        never_hung(&snapshots);
        assert_eq!(ask(&snapshots).verdict, State::Healthy);
    }
    for command in [&["bash", "setup.sh"][..], &["sh", "-c", "read answer"]] {
        expect(
            &told(command),
            State::Hung,
            Cause::WaitingForInput,
            Some(20),
        );
    }
}

/// A manager keeps a client waiting for an item that another client may put; when nobody is there who would, it is a hang.
#[test]
fn clients_of_a_manager_that_wait_for_what_another_may_give() {
    let told = |others_sleep: bool| {
        story(COUNT, |instant, shot| {
            let main = if others_sleep {
                polls(0)
            } else {
                waits_for(20)
            };
            shot.process(10, 1, &main.at(&["feed app.py 3"]));
            shot.process(20, 10, &on("read", 5, "socket:[20]").at(&["get app.py 9"]));
            let serves = [
                "wait /usr/lib/python3.11/threading.py 327",
                "get /usr/lib/python3.11/queue.py 171",
                "Server.serve_client /usr/lib/python3.11/multiprocessing/managers.py 260",
            ];
            let looks = [
                "wait /usr/lib/python3.11/threading.py 331",
                "Server.serve_forever /usr/lib/python3.11/multiprocessing/managers.py 177",
            ];
            let main = futex("0x1").for_a_while().ran_until(instant).at(&looks);
            let manager = shot.process(30, 10, &main);
            add_thread(manager, 31, &call("accept4"));
            add_thread(manager, 32, &futex("0x2").at(&serves));
            shot.unix(("socket:[20]", 20), ("socket:[30]", 30));
            for endpoint in &mut shot.snapshot.ipc.endpoints {
                let unix = endpoint.unix.as_mut().unwrap();
                unix.path = (endpoint.target == "socket:[30]").then(|| "/tmp/listener".to_owned());
            }
        })
    };
    never_hung(&told(true));
    expect(&told(false), State::Hung, Cause::WaitingForPeer, Some(30));
}
