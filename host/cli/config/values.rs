//! Values with a form of their own: durations, sizes, shares, patterns. A wrong one names the accepted form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Visitor;

const SPAN_FORM: &str =
    "a duration above zero and up to 30 days, such as \"120s\", \"2m\" or \"500ms\"";
const AGE_FORM: &str = "an age from a minute to ten years, such as \"30d\" or \"12h\"";
const SIZE_FORM: &str = "a size above zero, such as \"512 MiB\" or \"10 GB\"";
const ALLOWANCE_FORM: &str = "\"off\" or a size above zero, such as \"256 MiB\"";
const SHARE_FORM: &str =
    "a share of one core from \"0.001%\" to \"100%\", such as \"1%\" or \"0.5 %\"";
const DAY: Duration = Duration::from_hours(24);
const LONGEST: Duration = Duration::from_hours(30 * 24);
const SHORTEST: Duration = Duration::from_millis(1);

/// A duration above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct Span(Duration);

/// How old something may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(Duration);

/// A number of bytes above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(u64);

/// A number of bytes above zero, or nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    Off,
    Of(Size),
}

/// A share of one core, percent: above zero, one whole core at most.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Share(f64);

/// A regular expression (regex crate: linear time, no look-around).
#[derive(Clone, Debug)]
pub(crate) struct Pattern(pub(crate) regex::Regex);

impl Span {
    /// Returns a span of `seconds`, which is not 0.
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns it as the standard library's type.
    pub(crate) fn duration(self) -> Duration {
        self.0
    }
}

impl Age {
    /// Returns it as the standard library's type.
    pub(crate) fn duration(self) -> Duration {
        self.0
    }
}

impl Size {
    /// Returns a size of `count` MiB, which is not 0.
    pub(crate) const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }
}

impl Allowance {
    /// Returns the number of bytes, if any are allowed.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::Of(size) => Some(size.bytes()),
        }
    }
}

impl Share {
    /// The default.
    pub(crate) const ONE_PERCENT: Self = Self(1.0);

    /// Returns it in percent.
    pub(crate) fn percent(self) -> f64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || format!("`{text}` is not {SPAN_FORM}");
        let signed: jiff::SignedDuration = text.parse().map_err(|_| refuse())?;
        let duration = Duration::try_from(signed).map_err(|_| refuse())?;
        if duration < SHORTEST || duration > LONGEST {
            return Err(refuse());
        }
        Ok(Self(duration))
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || format!("`{text}` is not {AGE_FORM}");
        let days = text
            .strip_suffix('d')
            .and_then(|days| days.trim_end().parse::<u32>().ok());
        let duration = if let Some(days) = days {
            DAY * days
        } else {
            let signed: jiff::SignedDuration = text.parse().map_err(|_| refuse())?;
            Duration::try_from(signed).map_err(|_| refuse())?
        };
        if duration < Duration::from_mins(1) || duration > DAY * 3660 {
            return Err(refuse());
        }
        Ok(Self(duration))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || format!("`{text}` is not {SIZE_FORM}");
        let size: bytesize::ByteSize = text.parse().map_err(|_| refuse())?;
        if size.as_u64() == 0 {
            Err(refuse())
        } else {
            Ok(Self(size.as_u64()))
        }
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let size = text.parse();
        size.map(Self::Of)
            .map_err(|_| format!("`{text}` is not {ALLOWANCE_FORM}"))
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || format!("`{text}` is not {SHARE_FORM}");
        let number = text.strip_suffix('%').ok_or_else(refuse)?;
        let percent: f64 = number.trim_end().parse().map_err(|_| refuse())?;
        // Neither NaN nor an infinity is in the range.
        if !(0.001..=100.0).contains(&percent) {
            return Err(refuse());
        }
        Ok(Self(percent))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        regex::Regex::new(text)
            .map(Self)
            .map_err(|error| error.to_string())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if self.0.subsec_nanos() == 0 {
            write!(formatter, "{seconds}s")
        } else {
            write!(formatter, "{}ms", self.0.as_millis())
        }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds.is_multiple_of(DAY.as_secs()) {
            write!(formatter, "{}d", seconds / DAY.as_secs())
        } else {
            write!(formatter, "{seconds}s")
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1 << 20) {
            write!(formatter, "{} MiB", self.0 >> 20)
        } else {
            write!(formatter, "{} B", self.0)
        }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Of(size) => size.fmt(formatter),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", self.0)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.as_str())
    }
}

/// Parses a string value by `FromStr`; anything but a string is refused with `form`.
pub(super) struct Text<T> {
    pub(super) form: &'static str,
    pub(super) value: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = String>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.form)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! text_value {
    ($type:ty, $form:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text {
                    form: $form,
                    value: std::marker::PhantomData,
                })
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

pub(super) use text_value;

text_value!(Span, SPAN_FORM);
text_value!(Age, AGE_FORM);
text_value!(Size, SIZE_FORM);
text_value!(Allowance, ALLOWANCE_FORM);
text_value!(Share, SHARE_FORM);
text_value!(Pattern, "a regular expression such as \"train|worker\"");
