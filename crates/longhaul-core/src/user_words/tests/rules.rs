//! Marks of a rule.

use super::super::has_rule_mark;

const RULES: &str = "\
Never log the bearer token, not even in debug builds.
The public API must stay backwards compatible.
Do not reformat files you did not touch.
Please don't bump the lockfile.
Only maintainers merge into trunk.
From now on write tests before the code.
Make sure every migration can be rolled back.
Ask me before you drop a table.
At most two open pull requests at a time.
No network calls in unit tests.
I want small commits.
If CI is red, stop and report.
Prefer composition to inheritance.
Use ripgrep instead of grep.
Remember: amounts are cents.
Each handler needs a timeout.
Wait for my approval before you deploy.
Nothing goes to production without a ticket.
For status reports, show clocks in Pacific time, always.
Could you please never commit generated files?
Niemals direkt auf main pushen.
Bitte ändere nichts unter vendor, ohne mich zu fragen.
Ab jetzt antworte auf Deutsch.
Höchstens 80 Zeichen pro Zeile.
Statt npm nehmen wir pnpm.
Ne touche pas au dossier vendor.
N'ajoute aucune dépendance sans mon accord.
Toujours lancer les tests avant de pousser.
À partir de maintenant, réponds en français.
Nunca subas secretos al repositorio.
No cambies la API pública.
A partir de ahora responde en español.
Usa siempre pnpm.
Não mexa na pasta vendor.
Sempre rode os testes antes do commit.
Evite comentários óbvios.
Non modificare i file generati.
Chiedimi prima di cancellare qualcosa.
D'ora in poi usa solo TypeScript.
Gebruik nooit de productiedatabase.
Vraag het me voordat je iets verwijdert.
Nigdy nie commituj bez testów.
Od teraz używaj tylko pnpm.
Никогда не пушь в main.
Сначала спроси меня, потом удаляй.
Не трогай папку vendor.
Ніколи не змінюй згенеровані файли.
不要修改 vendor 目录。
提交之前必须先问我。
从现在开始只用 pnpm。
請勿提交金鑰。
必ずテストを実行してからコミットしてください。
本番環境には触らないでください。
今後はpnpmだけを使うこと。
반드시 커밋 전에 테스트를 실행하세요.
vendor 폴더는 수정하지 마세요.
لا تعدّل الملفات بدون إذني.
يجب تشغيل الاختبارات قبل كل دفع.
हमेशा पहले टेस्ट चलाओ।
बिना पूछे कुछ मत बदलो।
Asla main dalına pushlama.
Silmeden önce bana sor.
Nikdy nemaž databázi.
Rör aldrig mappen vendor.
Đừng sửa thư mục vendor.
Jangan pernah menghapus berkas tanpa bertanya.
هرگز بدون اجازه حذف نکن.
אף פעם אל תשנה את הקובץ.
Ποτέ μην αλλάζεις τα αρχεία.
ห้ามแก้ไขไฟล์ใน vendor";

const OTHERS: &str = "\
Thanks, that looks better.
I noticed it on the train.
The build fails with a strange error since this morning.
What does this function return?
Should we never cache that?
Shall I always use tabs?
I've never seen that before.
It always takes a while on my machine, I guess it's the disk.
That's not only slow, it is ugly.
No problem, take your time.
I don't know what happened there.
Danke, das sieht gut aus.
Keine Ahnung, woran das liegt.
Merci, ça a l'air bien.
Gracias, quedó muy bien.
Obrigado, ficou ótimo.
Grazie, sembra a posto.
Спасибо, выглядит хорошо.
谢谢，看起来不错。
ありがとうございます、よくなりました。
고마워요, 훨씬 나아졌네요.
شكرا، هذا أفضل.
धन्यवाद, यह अच्छा लग रहा है।
Teşekkürler, güzel görünüyor.";

#[test]
fn orders_prohibitions_limits_and_wishes_bear_a_mark() {
    let missed: Vec<&str> = RULES.lines().filter(|rule| !has_rule_mark(rule)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn thanks_narration_and_questions_bear_none() {
    let marked: Vec<&str> = OTHERS.lines().filter(|text| has_rule_mark(text)).collect();
    assert!(marked.is_empty(), "{marked:#?}");
}

#[test]
fn a_text_without_sentence_ends_is_no_rule() {
    let long = format!("never {}", "word ".repeat(120));
    assert!(!has_rule_mark(&long) && has_rule_mark(&long[..500]));
}
