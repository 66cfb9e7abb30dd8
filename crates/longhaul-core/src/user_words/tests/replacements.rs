//! Rules that a newer rule replaces.

use super::super::RuleWords;

/// Newer and older rule, line by line.
const REPLACED: &str = "\
The deadline is 2027-05-01.|The deadline is 2027-04-01.
Keep log files for 30 days.|Keep log files for 7 days.
From now on the API listens on port 9000.|The API listens on port 8000.
Actually, name the branches topic/ followed by the ticket.|Name the branches feature/ followed by the ticket.
Correction: Jonas reviews all migrations, not Ilse.|Ilse reviews all migrations.
Use port 9443 instead of 8443.|The staging server listens on port 8443.
Set the pool size to 30 from now on, 10 was too small.|Set the pool size to 10.
No longer main: branch off from develop.|Branch off from main.
I changed my mind: put the fixtures below testdata/golden.|Put the fixtures below tests/fixtures.
Planänderung: neue Branches heißen work/ plus Ticket.|Neue Branches heißen feat/ plus Ticket.
Ab jetzt höchstens 80 Zeichen pro Zeile.|Höchstens 60 Zeichen pro Zeile.
Désormais le délai est de 40 secondes.|Le délai est de 15 secondes.
Cambio de planes: los commits llevan el prefijo task/.|Los commits llevan el prefijo feat/.
Correção: o limite de upload é 40 MB.|O limite de upload é 20 MB.
D'ora in poi usa il modello small-v3 per la ricerca.|Usa il modello small-v2 per la ricerca.
Od teraz maksymalnie 60 linii na funkcję.|Maksymalnie 40 linii na funkcję.
Теперь таймаут 40 секунд.|Таймаут 15 секунд.
从现在开始端口改用9443。|端口用8443。
今後はポート9443を使ってください。|ポート8443を使ってください。
앞으로는 포트 9443을 사용하세요.|포트 8443을 사용하세요.
تصحيح: المهلة 40 ثانية.|المهلة 15 ثانية.
Bundan sonra fonksiyonlar en fazla 60 satır olsun.|Fonksiyonlar en fazla 40 satır olsun.";

/// Rules that only look alike, or are not certainly about the same.
const APART: &str = "\
Use port 9443 for production.|Use port 8443 for staging.
Keep test functions below 60 lines.|Keep functions below 40 lines.
From now on keep test functions below 60 lines.|Keep functions below 40 lines.
Use tabs for Rust.|Use tabs for Go.
From now on use tabs for Rust.|Use tabs for Go.
Fix issue 13 first.|Fix issue 12 first.
Never touch vendor/.|Never touch dist/.
Read docs/a.md before you start.|Read docs/b.md before you start.
Deploy to staging instead of production.|Deploy the docs to production.
The backup region is us-west-2.|The primary region is eu-north-1.
Project spending ceiling is $500.|Conference spending ceiling is $300.
Correction: the production server listens on port 9443.|The staging server listens on port 8443.
Actually, also run the linter before each commit.|Run the tests before each commit.
Sorry, can you use the other file?|Use the file config.toml for settings.
Don't use port 8443 for tests.|The staging server listens on port 8443.
Set the client timeout to 15 seconds.|Set the server timeout to 15 seconds.
Never use npm.|Always use npm.
Teste mit Postgres 15.|Baue mit Node 20.
端口9443用于生产。|端口8443用于测试。
Use port 9090 for metrics.|Use port 8443 for TLS.
From now on use port 9090 for metrics.|Use port 8443 for TLS.
At most 60 lines per test.|At most 40 lines per function.
From now on at most 60 lines per test.|At most 40 lines per function.
Correction: at most 60 lines per test.|At most 40 lines per function.
Höchstens 60 Zeilen je Test.|Höchstens 40 Zeilen je Funktion.
Ab jetzt Port 9090 für Metriken.|Port 8443 für TLS.
Au plus 60 lignes par test.|Au plus 40 lignes par fonction.
Usa el puerto 9090 para las métricas.|Usa el puerto 8443 para TLS.
Maksymalnie 60 linii na test.|Maksymalnie 40 linii na funkcję.
Порт 9090 для метрик.|Порт 8443 для TLS.
テストは最大60行です。|関数は最大40行です。
테스트는 최대 60줄입니다.|함수는 최대 40줄입니다.
Each team names three reviewers.|Each service names two owners.
Run the two scripts now.|Run the three tests first.
From now on deploy to stage-eu, not to prod-eu.|Never deploy to prod-eu.
Keep it short.|Keep it short.";

/// Pairs in ten languages by which the words were chosen, and pairs that were read once the words stood.
const CHOSEN: &str = include_str!("replaced/chosen.txt");
const JUDGING: &str = include_str!("replaced/judging.txt");
/// Pairs that only look alike.
const CHOSEN_APART: &str = include_str!("replaced/chosen_apart.txt");
const JUDGING_APART: &str = include_str!("replaced/judging_apart.txt");

fn replaces(newer: &str, older: &str) -> bool {
    RuleWords::new(newer).replaces(&RuleWords::new(older))
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().map(|line| line.split_once('|').unwrap())
}

#[test]
fn another_value_of_the_same_rule_replaces_the_older_one() {
    let missed: Vec<_> = pairs(REPLACED).filter(|(new, old)| !replaces(new, old)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    // The others change a word that no list holds.
    let count = |text| pairs(text).filter(|(new, old)| replaces(new, old)).count();
    assert_eq!((count(CHOSEN), count(JUDGING)), (29, 28));
}

#[test]
fn rules_that_look_alike_stand_side_by_side() {
    let all = [APART, CHOSEN_APART, JUDGING_APART].into_iter().flat_map(pairs);
    let taken: Vec<_> = all.filter(|(new, old)| replaces(new, old)).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn no_rule_of_another_pair_is_replaced() {
    for (at, (new, _)) in pairs(REPLACED).enumerate() {
        for (_, (_, old)) in pairs(REPLACED).enumerate().filter(|(other, _)| *other != at) {
            assert!(!replaces(new, old), "{new} | {old}");
        }
    }
}
