//! Tables in the width of a terminal: long columns are cut, and then the last ones are left out.

/// Blanks between two columns.
const GAP: usize = 2;
/// No column is cut below so many characters, as a time has, or below its head.
const CUT_MIN: usize = 20;
/// Columns that are left out by no terminal: without them a row names nothing.
const KEPT_MIN: usize = 2;

/// The width of each column that is shown, so that a row has at most `most` characters. `content` has the widths that
/// the cells need, and `heads` those of the heads. Columns at the end may be missing.
pub(super) fn fitted(content: &[usize], heads: &[usize], most: usize) -> Vec<usize> {
    let mut widths = content.to_vec();
    loop {
        shrink(&mut widths, heads, most);
        if total(&widths) <= most || widths.len() <= KEPT_MIN {
            return widths;
        }
        // With a column less, the others may have more again.
        widths = content.get(..widths.len().saturating_sub(1)).unwrap_or_default().to_vec();
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes from the widest columns until the row fits, or none can give.
fn shrink(widths: &mut [usize], heads: &[usize], most: usize) {
    while total(widths) > most {
        let least = |column: usize| heads.get(column).copied().unwrap_or(0).max(CUT_MIN);
        let can_give = widths.iter().enumerate().filter(|(column, width)| **width > least(*column));
        let Some((column, _)) = can_give.max_by_key(|(_, width)| **width) else { return };
        if let Some(width) = widths.get_mut(column) {
            *width = width.saturating_sub(1);
        }
    }
}

/// What is said of columns that are left out.
pub(super) fn left_out_text(heads: &[&str]) -> String {
    format!("… more columns: {}; all of them: -o wide\n", heads.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_column_is_cut_first_and_then_the_last_ones_go() {
        let heads = [4, 4, 9];
        assert_eq!(fitted(&[5, 7, 60], &heads, 100), [5, 7, 60], "there is room");
        assert_eq!(fitted(&[5, 7, 60], &heads, 50), [5, 7, 34]);
        assert_eq!(fitted(&[40, 7, 60], &heads, 60), [25, 7, 24]);
        assert_eq!(fitted(&[30, 30, 30], &heads, 50), [24, 24], "the last one has no room");
        assert_eq!(fitted(&[30, 30, 30], &heads, 10), [20, 20], "a name is shown in any case");
        for most in 10..120 {
            let widths = fitted(&[20, 12, 40, 30, 20], &[5, 5, 5, 5, 5], most);
            assert!(total(&widths) <= most || widths.len() == KEPT_MIN, "{most}: {widths:?}");
        }
    }
}
