//! Numbers of system calls, which differ from one kind of machine to the next.

use syscalls::{aarch64, arm, x86, x86_64};

/// For what kind of machine a program was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abi {
    X86_64,
    /// 32-bit programs, which x86-64 kernels run as well.
    X86,
    Aarch64,
    /// 32-bit programs, which some 64-bit ARM kernels run as well.
    Arm,
}

/// 32-bit programs have no addresses from here on; the stack of a 64-bit one is always above.
const BEYOND_32_BIT: u64 = 1 << 32;

/// Calls of the x32 kind have this bit in their numbers; the rest of these means what it does for x86-64 only in part.
const X32: u32 = 0x4000_0000;

/// Returns the kind of a program on this machine by the bottom of its stack, where that is known (not 0), else by the stack pointer of
/// the thread, which proves a 64-bit one only. Nothing where it cannot be told.
pub(super) fn native(start_stack: u64, stack_pointer: Option<u64>) -> Option<Abi> {
    let (wide, narrow) = match std::env::consts::ARCH {
        "x86_64" => (Abi::X86_64, Abi::X86),
        "aarch64" => (Abi::Aarch64, Abi::Arm),
        _ => return None,
    };
    match (start_stack, stack_pointer) {
        (1..BEYOND_32_BIT, _) => Some(narrow),
        (BEYOND_32_BIT.., _) | (_, Some(BEYOND_32_BIT..)) => Some(wide),
        _ => None,
    }
}

/// Returns the name of the call `number`.
pub(super) fn name(abi: Abi, number: u32) -> Option<&'static str> {
    if abi == Abi::X86_64 && number & X32 != 0 {
        return None;
    }
    let number = usize::try_from(number).ok()?;
    Some(match abi {
        Abi::X86_64 => x86_64::Sysno::new(number)?.name(),
        Abi::X86 => x86::Sysno::new(number)?.name(),
        Abi::Aarch64 => aarch64::Sysno::new(number)?.name(),
        Abi::Arm => arm::Sysno::new(number)?.name(),
    })
}
