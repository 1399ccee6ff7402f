//! The name of a terminal by its device number, as `stat` has it.

/// Returns `none` for 0, the name below `/dev` of the usual terminals, else `MAJOR:MINOR`.
pub(crate) fn name(device: i32) -> String {
    // The kernel's new_encode_dev: the minor number stands on both sides of the major one.
    let device = device.cast_unsigned();
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    match (major, minor) {
        (0, 0) => "none".to_owned(),
        (4, 0..64) => format!("tty{minor}"),
        (4, _) => format!("ttyS{}", minor - 64),
        (5, 1) => "console".to_owned(),
        (136..144, _) => format!("pts/{}", minor + (major - 136) * 256),
        (204, 64..80) => format!("ttyAMA{}", minor - 64),
        (229, _) => format!("hvc{minor}"),
        _ => format!("{major}:{minor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_terminals_have_their_names() {
        assert_eq!(name(0), "none");
        assert_eq!(name(34816), "pts/0");
        assert_eq!(name(34816 + 7), "pts/7");
        assert_eq!(name((136 << 8) | (1 << 20) | 2), "pts/258");
        assert_eq!(name((4 << 8) | 1), "tty1");
        assert_eq!(name((4 << 8) | 64), "ttyS0");
        assert_eq!(name((5 << 8) | 1), "console");
        assert_eq!(name((250 << 8) | 3), "250:3");
        assert_eq!(name(-1), "4095:1048575");
    }
}
