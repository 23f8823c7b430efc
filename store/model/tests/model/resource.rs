//! Amounts as text, and arithmetic in every dimension.

use std::collections::BTreeSet;

use borough_model::resource::{
    AmountProblem, Dimension, ResourceError, Resources, bytes_display, bytes_parse, cpu_display, cpu_parse,
    device_display, device_parse, fits_in, rate_display, rate_parse, resources_add, resources_less,
    resources_multiply, resources_sub, shortfall,
};
use proptest::prelude::*;

#[test]
fn amounts_are_read_in_every_unit() {
    assert_eq!(
        [cpu_parse("2"), cpu_parse("0.5"), cpu_parse("500m"), cpu_parse("1.250")].map(Result::unwrap),
        [2000, 500, 500, 1250]
    );
    let bytes = [
        ("1048576", 1 << 20),
        ("0", 0),
        ("512k", 512_000),
        ("512K", 512_000),
        ("64Mi", 64 << 20),
        ("64MiB", 64 << 20),
        (" 64 MiB ", 64 << 20),
        ("1G", 1_000_000_000),
        ("1.5GiB", 3 << 29),
        ("0.5Ki", 512),
        ("100B", 100),
        ("2TiB", 2 << 40),
        ("15PiB", 15 << 50),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, value) in bytes {
        assert_eq!(bytes_parse(text).unwrap(), value, "{text}");
    }
    let rates = [("10MiB/s", 10 << 20), ("1000", 1000), ("1k/s", 1000), ("7/s", 7)];
    for (text, value) in rates {
        assert_eq!(rate_parse(text).unwrap(), value, "{text}");
    }
    assert_eq!((device_parse("1").unwrap(), device_parse("0.5").unwrap()), (1000, 500));
}

#[test]
fn what_is_no_amount_is_refused_with_what_would_be_one() {
    use AmountProblem::{Empty, Negative, NotANumber, NotFinite, TooFine, TooLarge};
    let unit = |text: &str| AmountProblem::Unit(text.to_owned());
    let near = |unit: &str, amount: &str| AmountProblem::UnitNear(unit.to_owned(), amount.to_owned());
    let bytes = [
        ("", Empty),
        ("  ", Empty),
        ("-1", Negative),
        ("-1Mi", Negative),
        ("NaN", NotFinite),
        ("-inf", NotFinite),
        (".inf", NotFinite),
        ("infinity", NotFinite),
        ("Mi", NotANumber),
        ("1.2.3", NotANumber),
        ("1.", NotANumber),
        (".5", NotANumber),
        ("+5", NotANumber),
        ("\u{0663}", NotANumber),
        ("64mb", near("mb", "64MB")),
        ("64m", near("m", "64M")),
        ("64Mib", near("Mib", "64MiB")),
        ("64MiB/s", unit("MiB/s")),
        ("1e9", unit("e9")),
        ("1_000", unit("_000")),
        ("1,5G", unit(",5G")),
        ("0.5", TooFine),
        ("0.0001Ki", TooFine),
        ("18446744073709551616", TooLarge),
        ("16384PiB", TooLarge),
        ("999999999999999999999999999999999999", TooLarge),
    ];
    for (text, problem) in bytes {
        assert_eq!(bytes_parse(text).unwrap_err().problem, problem, "{text:?}");
    }
    assert_eq!(cpu_parse("0.0005").unwrap_err().problem, TooFine);
    assert_eq!(cpu_parse("0.5m").unwrap_err().problem, TooFine);
    assert_eq!(cpu_parse("2 cores").unwrap_err().problem, unit("cores"));
    assert_eq!(rate_parse("10MiB").unwrap_err().problem, unit("MiB"));
    assert_eq!(rate_parse("10Mbit/s").unwrap_err().problem, unit("Mbit"));
    assert_eq!(device_parse("1m").unwrap_err().problem, unit("m"));
    let message = cpu_parse("-1").unwrap_err().to_string();
    assert_eq!(
        message,
        "\"-1\" is negative; accepted: cores such as 2, 0.5 or 500m, in steps of one thousandth"
    );
    assert!(bytes_parse(&"9".repeat(5000)).unwrap_err().to_string().len() < 300);
}

#[test]
fn amounts_are_shown_in_the_largest_unit_that_loses_nothing() {
    assert_eq!([2000, 500, 0].map(cpu_display), ["2", "500m", "0"]);
    assert_eq!(
        [0, 1, 1024, 1000, 64 << 20, 3 << 29, 1_000_000, 1_000_001].map(bytes_display),
        ["0", "1", "1KiB", "1k", "64MiB", "1536MiB", "1M", "1000001"]
    );
    assert_eq!(rate_display(10 << 20), "10MiB/s");
    assert_eq!([0, 1, 500, 1000, 2500].map(device_display), ["0", "0.001", "0.5", "1", "2.5"]);
    let some = Resources {
        cpu_millis: 500,
        device_millis: [("gpu".to_owned(), 1000)].into(),
        ..Resources::default()
    };
    assert_eq!(some.to_string(), "cpu 500m, device gpu 1");
    assert_eq!(Resources::default().to_string(), "nothing");
}

fn resources() -> impl Strategy<Value = Resources> {
    let amount = prop_oneof![3 => 0u64..1000, 1 => any::<u64>()];
    let devices = prop::collection::btree_map("(gpu|fpga|tpu)", 1u64..3000, 0..3);
    (prop::array::uniform5(amount), devices).prop_map(|(fixed, device_millis)| Resources {
        cpu_millis: fixed[0],
        memory_bytes: fixed[1],
        disk_bytes: fixed[2],
        disk_bytes_per_s: fixed[3],
        network_bytes_per_s: fixed[4],
        device_millis,
    })
}

fn amount(resources: &Resources, dimension: &Dimension) -> u128 {
    u128::from(resources.amount(dimension))
}

proptest! {
    #[test]
    fn shown_amounts_read_back(value in any::<u64>()) {
        prop_assert_eq!(cpu_parse(&cpu_display(value)).unwrap(), value);
        prop_assert_eq!(bytes_parse(&bytes_display(value)).unwrap(), value);
        prop_assert_eq!(rate_parse(&rate_display(value)).unwrap(), value);
        prop_assert_eq!(device_parse(&device_display(value)).unwrap(), value);
    }

    #[test]
    fn round_amounts_read_back(factor in 0u64..10_000, shift in 0u32..40) {
        prop_assert_eq!(bytes_parse(&bytes_display(factor << shift)).unwrap(), factor << shift);
    }

    #[test]
    fn no_text_panics(text in any::<String>(), near in "[-+. 0-9a-zA-Z/_eE]{0,30}") {
        for text in [text, near] {
            for parse in [cpu_parse, bytes_parse, rate_parse, device_parse] {
                if let Err(error) = parse(&text) {
                    prop_assert!(error.to_string().contains("accepted: "));
                }
            }
        }
    }

    #[test]
    fn sums_and_differences_are_exact_or_refused(a in resources(), b in resources()) {
        let dimensions: BTreeSet<Dimension> =
            a.amounts().into_iter().chain(b.amounts()).map(|(dimension, _)| dimension).collect();
        let exceeds = |d: &Dimension| amount(&a, d) + amount(&b, d) > u128::from(u64::MAX);
        match resources_add(&a, &b) {
            Ok(sum) => {
                for d in &dimensions {
                    prop_assert_eq!(amount(&sum, d), amount(&a, d) + amount(&b, d));
                }
                prop_assert_eq!(&resources_sub(&sum, &b).unwrap(), &a);
            }
            Err(ResourceError::Overflow { dimension, .. }) => prop_assert!(exceeds(&dimension)),
            Err(error) => prop_assert!(false, "{}", error),
        }
        prop_assert_eq!(resources_add(&a, &b).is_err(), dimensions.iter().any(exceeds));
        prop_assert_eq!(resources_sub(&a, &b).is_ok(), fits_in(&b, &a));
        let left = resources_less(&a, &b);
        for d in &dimensions {
            prop_assert_eq!(amount(&left, d), amount(&a, d).saturating_sub(amount(&b, d)));
        }
        prop_assert!(left.device_millis.values().all(|&amount| amount > 0));
    }

    #[test]
    fn what_fits_has_no_shortfall_and_the_shortfall_makes_it_fit(need in resources(), free in resources()) {
        let short = shortfall(&need, &free);
        prop_assert_eq!(short.is_empty(), fits_in(&need, &free));
        let mut enough = free;
        for each in &short {
            prop_assert!(each.missing() > 0);
            enough.amount_set(&each.dimension, each.free + each.missing());
        }
        prop_assert!(fits_in(&need, &enough));
    }

    #[test]
    fn multiplying_is_adding_again_and_again(one in resources(), factor in 0u32..6) {
        let sum = (0..factor).try_fold(Resources::default(), |sum, _| resources_add(&sum, &one));
        prop_assert_eq!(resources_multiply(&one, factor).ok(), sum.ok());
    }
}
