//! Lines as kernels write them, by machine.

use model::CallTimeout::{Infinite, Set};
use proptest::prelude::*;

use super::*;

const HIGH: &str = "0x7ffc3a1c4d10 0x7f2c8a0e5a3d";

fn on(abi: Abi, line: &str) -> Option<SystemCall> {
    describe(abi, &Registers::parse(line)?)
}

/// The call of x86-64 with these arguments; the others are 0.
fn call(number: u32, arguments: &[u64]) -> SystemCall {
    let mut words = arguments.to_vec();
    words.resize(6, 0);
    let words: Vec<String> = words.iter().map(|word| format!("{word:#x}")).collect();
    on(Abi::X86_64, &format!("{number} {} {HIGH}", words.join(" "))).unwrap()
}

/// As the kernel has an `int` of -1 in a register.
const MINUS_ONE: u64 = 0xffff_ffff;

#[test]
fn a_wait_for_a_lock_names_the_word_the_operation_and_the_timeout() {
    let wait = call(202, &[0x7f2c_8a0e_5000, 393, 0, 0, 0, MINUS_ONE]);
    assert_eq!(wait.name, "futex");
    assert_eq!(wait.address.as_deref(), Some("0x7f2c8a0e5000"));
    let operation = "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME";
    assert_eq!(wait.operation.as_deref(), Some(operation));
    assert_eq!(wait.timeout, Some(Infinite));
    assert_eq!(call(202, &[1, 128, 2, 0x7ffc]).timeout, Some(Set));
    // The fourth argument of a wake is no time.
    assert_eq!(call(202, &[1, 129, 1, 0x7ffc]).timeout, None);
    assert_eq!(call(449, &[1, 2, 0, 0]).timeout, Some(Infinite));
}

#[test]
fn input_and_output_name_the_descriptor() {
    for (number, name) in [
        (0, "read"),
        (1, "write"),
        (45, "recvfrom"),
        (47, "recvmsg"),
        (44, "sendto"),
        (43, "accept"),
        (288, "accept4"),
        (42, "connect"),
        (74, "fsync"),
        (232, "epoll_wait"),
        (73, "flock"),
    ] {
        let call = call(number, &[5]);
        assert_eq!((call.name.as_str(), call.fd), (name, Some(5)));
    }
    // The kernel looks at the lower half only.
    assert_eq!(call(257, &[0xffff_ff9c]).fd, Some(-100));
    assert_eq!(call(257, &[0xffff_ffff_ffff_ff9c]).fd, Some(-100));
}

#[test]
fn timeouts_that_are_numbers_are_told() {
    let epoll = call(232, &[4, 0x7ffc, 16, MINUS_ONE]);
    assert_eq!(
        (epoll.fd, epoll.timeout, epoll.timeout_ms),
        (Some(4), Some(Infinite), None)
    );
    let poll = call(7, &[0x7ffc, 2, 1500]);
    assert_eq!(
        (poll.fd, poll.timeout, poll.timeout_ms),
        (None, Some(Set), Some(1500))
    );
    assert_eq!(call(7, &[0x7ffc, 2, 0]).timeout_ms, Some(0));
}

#[test]
fn timeouts_behind_pointers_are_there_or_not() {
    for (number, place) in [(271, 2), (23, 4), (270, 4), (299, 4), (441, 3), (128, 2)] {
        let mut arguments = [0; 6];
        assert_eq!(call(number, &arguments).timeout, Some(Infinite), "{number}");
        arguments[place] = 0x7ffc;
        assert_eq!(call(number, &arguments).timeout, Some(Set), "{number}");
    }
    assert_eq!(call(35, &[0x7ffc]).timeout, Some(Set));
    assert_eq!(call(34, &[]).timeout, Some(Infinite));
}

#[test]
fn a_sleep_names_its_clock_and_a_request_its_number() {
    let sleep = call(230, &[1, 1, 0x7ffc]);
    assert_eq!(
        sleep.operation.as_deref(),
        Some("CLOCK_MONOTONIC|TIMER_ABSTIME")
    );
    let ioctl = call(16, &[3, 0xc030_4627]);
    assert_eq!(
        (ioctl.fd, ioctl.operation.as_deref()),
        (Some(3), Some("0xc0304627"))
    );
    let lock = call(72, &[9, 7, 0x7ffc]);
    assert_eq!(
        (lock.fd, lock.operation.as_deref()),
        (Some(9), Some("F_SETLKW"))
    );
    assert_eq!(call(73, &[9, 2]).operation.as_deref(), Some("LOCK_EX"));
}

#[test]
fn whom_a_parent_waits_for_is_told() {
    assert_eq!(call(61, &[MINUS_ONE]).waits_for, Some(-1));
    assert_eq!(call(61, &[4711]).waits_for, Some(4711));
    assert_eq!(call(247, &[0, 0]).waits_for, Some(-1));
    assert_eq!(call(247, &[1, 4711]).waits_for, Some(4711));
    assert_eq!(call(247, &[2, 4711]).waits_for, Some(-4711));
    let by_descriptor = call(247, &[3, 7]);
    assert_eq!((by_descriptor.waits_for, by_descriptor.fd), (None, Some(7)));
}

#[test]
fn each_kind_of_machine_has_its_own_numbers() {
    for (abi, futex, read, wait4, clock_nanosleep) in [
        (Abi::X86_64, 202, 0, 61, 230),
        (Abi::Aarch64, 98, 63, 260, 115),
        (Abi::X86, 240, 3, 114, 267),
        (Abi::Arm, 240, 3, 114, 265),
    ] {
        let name = |number| table::name(abi, number);
        assert_eq!(name(futex), Some("futex"), "{abi:?}");
        assert_eq!(name(read), Some("read"), "{abi:?}");
        assert_eq!(name(wait4), Some("wait4"), "{abi:?}");
        assert_eq!(name(clock_nanosleep), Some("clock_nanosleep"), "{abi:?}");
        assert_eq!(name(100_000), None, "{abi:?}");
    }
    assert_eq!(table::name(Abi::Aarch64, 22), Some("epoll_pwait"));
    assert_eq!(table::name(Abi::X86_64, 0x4000_0000), None);
}

#[test]
fn a_call_of_an_arm_machine_is_explained_alike() {
    let wait = on(
        Abi::Aarch64,
        "98 0xffff8000 0x189 0x0 0x0 0x0 0xffffffff 0xfffff000 0xffff8a10",
    )
    .unwrap();
    assert_eq!(
        (wait.name.as_str(), wait.timeout),
        ("futex", Some(Infinite))
    );
    let epoll = on(
        Abi::Aarch64,
        "22 0x4 0xffff8000 0x10 0xffffffff 0x0 0x8 0xfffff000 0xffff8a10",
    )
    .unwrap();
    assert_eq!((epoll.fd, epoll.timeout), (Some(4), Some(Infinite)));
}

#[test]
fn a_32_bit_program_is_not_read_by_the_64_bit_table() {
    let futex = on(
        Abi::X86,
        "422 0x5655a000 0x80 0x2 0x0 0x0 0x0 0xffd3a1c4 0xf7f1a3d0",
    )
    .unwrap();
    assert_eq!(
        (futex.name.as_str(), futex.timeout),
        ("futex_time64", Some(Infinite))
    );
    assert_eq!(
        on(
            Abi::X86,
            "82 0xffd3a1c4 0x0 0x0 0x0 0x0 0x0 0xffd3a1c4 0xf7f1a3d0"
        )
        .unwrap()
        .timeout,
        None
    );
    let native = |start_stack, pointer| table::native(start_stack, pointer);
    let (wide, narrow) = (native(1 << 46, None), native(0xffd3_a1c4, None));
    assert_ne!(wide, narrow);
    assert_eq!(native(0, Some(1 << 46)), wide);
    assert_eq!(
        native(0, Some(0xffd3_a1c4)),
        None,
        "a stack may lie low in a 64-bit program"
    );
    assert_eq!(native(0, None), None);
    // Threads of a 64-bit program may have stacks anywhere.
    assert_eq!(native(1 << 46, Some(0xffd3_a1c4)), wide);
}

#[test]
fn a_thread_that_runs_is_in_no_call() {
    for line in [
        "running",
        "-1 0x7ffc3a1c4d10 0x7f2c8a0e5a3d",
        "",
        "x",
        "0 7 0x1",
        "0 0xg",
    ] {
        assert_eq!(decode(line, 1 << 46), None, "{line}");
    }
    assert_eq!(
        on(Abi::X86_64, &format!("999 0x0 0x0 0x0 0x0 0x0 0x0 {HIGH}")),
        None
    );
}

#[test]
fn a_line_without_its_arguments_is_still_a_name() {
    let call = on(Abi::X86_64, "202").unwrap();
    assert_eq!((call.name.as_str(), call.address), ("futex", None));
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(number in 0_u32..600, words in proptest::collection::vec(any::<u64>(), 0..9)) {
        let words: Vec<String> = words.iter().map(|word| format!("{word:#x}")).collect();
        for abi in [Abi::X86_64, Abi::X86, Abi::Aarch64, Abi::Arm] {
            let _ = on(abi, &format!("{number} {}", words.join(" ")));
        }
    }

    #[test]
    fn no_text_makes_it_panic(line in ".{0,60}") {
        let _ = decode(&line, 1 << 46);
    }
}
