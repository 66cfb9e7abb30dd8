//! Approvals.

use super::super::approves;

#[test]
fn an_approval_may_be_short_polite_or_conditional() {
    let approvals = "\
Yes, do it like that.|go ahead|LGTM|Sounds good to me, thanks!|ok, do it|Yes please|yep|let's do option 2
option 3|b|2|👍|Sure, put it into the docs.|Yes, but use port 9443.|yes, don't touch the API though
that works, but first run the tests|looks good, can you also add a test?|If that's the only way, then yes.
Ja, mach das so.|passt, leg los|ok mach das|Klingt gut|oui, vas-y|d'accord|ça me va|sí, adelante|dale|está bien
sim, pode fazer|tá bom|sì, procedi|va bene|ja, doe maar|akkoord|tak, zrób to|jasne|да, делай|согласен|так, роби
好的，就这样做|可以|没问题，继续吧|はい、お願いします|それでお願いします|了解です|네, 진행해주세요|좋아요|نعم، تفضل|موافق
हाँ, कर दो|ठीक है|evet, devam et|tamam|ano, udělej to|ja, gör det|đồng ý|setuju, lanjutkan|כן, קדימה|ναι";
    let missed: Vec<&str> = approvals.split(['|', '\n']).filter(|text| !approves(text)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_refusal_a_delay_and_other_words_approve_nothing() {
    let others = "\
no|No, the schema is frozen.|not yet|yes, but not yet|wait|Wait, let me look first.|don't|Don't do it.|stop
hold on, let me think about it|no, go ahead with the other one|ok, but what about the tests?|great, why is it red?
Thanks!|the build fails now|can you rename the file?|I noticed it on the train.|nein|noch nicht|ja, aber noch nicht
non|pas encore|no lo hagas|todavía no|não|ainda não|nee, wacht|nie|нет|пока нет|подожди|不行|先不要|等一下|いいえ
まだです|待って|아니요|아직 하지 마세요|لا|انتظر|नहीं|अभी नहीं|hayır|bekle|nej|jangan|1. the lint fails 2. so does the build";
    let taken: Vec<&str> = others.split(['|', '\n']).filter(|text| approves(text)).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn a_long_message_approves_nothing() {
    let long = format!("Yes. {}", "And so on. ".repeat(40));
    assert!(!approves(&long));
}
