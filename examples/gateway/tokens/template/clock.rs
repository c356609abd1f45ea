//! `strftime_now`, with which some templates write today's date into the system prompt.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

/// The present time in UTC by Python's `strftime` format. Engines use their machine's zone, in nearly every container
/// UTC.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    strftime(format, seconds)
}

/// `seconds` since the epoch by `format`. A directive that no template in use has is an error: a wrong guess would be a
/// wrong prompt.
fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '%' => text.push_str(&field(rest.next(), seconds)?),
            other => text.push(other),
        }
    }
    Ok(text)
}

fn field(directive: Option<char>, seconds: u64) -> Result<String, Error> {
    let days = usize::try_from(seconds / 86_400).unwrap_or(usize::MAX / 8);
    let date = Date::from_days(days);
    let (month, weekday) = (MONTHS[date.month - 1], WEEKDAYS[days % 7]);
    Ok(match directive {
        Some('Y') => date.year.to_string(),
        Some('y') => format!("{:02}", date.year % 100),
        Some('m') => format!("{:02}", date.month),
        Some('d') => format!("{:02}", date.day),
        Some('B') => month.to_owned(),
        Some('b') => month[..3].to_owned(),
        Some('A') => weekday.to_owned(),
        Some('a') => weekday[..3].to_owned(),
        Some('H') => format!("{:02}", seconds / 3600 % 24),
        Some('M') => format!("{:02}", seconds / 60 % 60),
        Some('S') => format!("{:02}", seconds % 60),
        Some('%') => "%".to_owned(),
        other => return Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown directive {other:?}"))),
    })
}

/// A day of the Gregorian calendar.
struct Date {
    year: usize,
    month: usize,
    day: usize,
}

impl Date {
    /// The day that lies `days` after 1970-01-01.
    ///
    /// Years are counted from March, so that the leap day is the last of its year: then a day's month follows from a
    /// line of slope 153/5, the mean length of the months from March on.
    fn from_days(days: usize) -> Self {
        let since_march_0000 = days + DAYS_TO_EPOCH;
        let (era, day_of_era) = (since_march_0000 / DAYS_OF_400_YEARS, since_march_0000 % DAYS_OF_400_YEARS);
        // Takes out the leap days of the era: one each 1,460 days, but for each 36,524, but not the last.
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era * 400 + year_of_era + usize::from(month <= 2);
        Self { year, month, day: day_of_year - (153 * march_month + 2) / 5 + 1 }
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: usize = 719_468;
const DAYS_OF_400_YEARS: usize = 146_097;
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
/// 1970-01-01 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_the_calendar_has_them() {
        let cases = [
            (0, "1970-01-01 Thursday 00:00:00"),
            (951_782_399, "2000-02-28 Monday 23:59:59"),
            (951_782_400, "2000-02-29 Tuesday 00:00:00"),
            (1_709_164_800, "2024-02-29 Thursday 00:00:00"),
            (1_735_689_599, "2024-12-31 Tuesday 23:59:59"),
            (4_107_542_400, "2100-03-01 Monday 00:00:00"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(strftime("%Y-%m-%d %A %H:%M:%S", seconds).unwrap(), expected);
        }
        assert_eq!(strftime("%d %b %y 100%%", 1_709_164_800).unwrap(), "29 Feb 24 100%");
    }

    #[test]
    fn an_unknown_directive_is_an_error() {
        assert!(strftime("%Q", 0).is_err());
        assert!(strftime("%", 0).is_err());
    }
}
