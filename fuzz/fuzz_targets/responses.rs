//! Fuzzes bodies of the Responses API. A body that is read must stay JSON under windows of
//! every size, be read again, and differ in the replacements only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::dialect::responses::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;

fuzz_target!(|body: &[u8]| {
    let Ok(conversation) = read(body) else {
        return;
    };
    for window in [100, 1_000, 8_000] {
        for placement in [Placement::Separate, Placement::Merged] {
            let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
            policy.settings.placement = placement;
            let known = PriorRecords::default();
            let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
            let cuts = view.replacements(&conversation);
            let Some(splice) = cuts.and_then(|cuts| Splice::new(&conversation, &cuts)) else {
                continue;
            };
            let after = splice.apply();
            assert_eq!(splice.corrupted_bytes([&*after]), 0);
            assert!(read(&after).is_ok());
        }
    }
});
