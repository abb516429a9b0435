"""Texts written for the tokenizer fixtures: many scripts, code, digits, marks, blanks."""

PARAGRAPHS = [
    # English, with contractions in both cases
    "The harbour was quiet that morning. Nobody had told the lighthouse keeper that the ferry wouldn't come, "
    "so she'd lit the lamp, swept the stairs and put the kettle on. \"It's early,\" she said, \"but they'll be "
    "here by ten.\" They weren't. By noon the fog had swallowed the pier, the gulls, and the keeper's patience; "
    "I'd have given up, you'd have given up, but she'd seen forty winters and didn't mind one more hour.",
    "A reference implementation does not need to be fast, it needs to be right, and then it needs to be clear "
    "about why it is right. When two programs disagree about the last bit, one of them has a story to tell: a "
    "rounding in the middle, a sum in another order, a table that somebody copied from a book. The same bits, "
    "the same tokens, the same digest: that is the whole promise, and the tests are there to break it.",
    "WE'LL SEE WHETHER THEY'RE READY, SAID THE CAPTAIN; I'M NOT SURE THAT IT'S WISE, BUT WHO'D STOP HIM? "
    "He'S mixed, she'Ll mix, they'vE mixed: don'T, can't, o'clock, rock'n'roll, 'tis, ''s.",
    # German, French, Spanish, Portuguese, Italian
    "Der alte Bäcker schließt um sechs Uhr, obwohl die Straße dann noch voller Menschen ist. Größe, Maß und "
    "Übung machen den Meister, sagt er, und wischt das Mehl von der Theke. Fünf Brötchen kosten 2,35 €.",
    "L'été dernier, nous avons traversé la Bretagne à vélo ; il pleuvait presque chaque après-midi, mais les "
    "crêpes étaient si bonnes qu'on n'y pensait plus. « Où êtes-vous allés ? » demanda la voisine, étonnée.",
    "¿Quién dejó la ventana abierta? El gato saltó sobre el piano y tocó, sin querer, la última nota de la "
    "canción. Mañana arreglaremos el jardín: rosas, jazmín y un naranjo pequeño. ¡Qué alegría!",
    "A maçã caiu no chão da cozinha e ninguém a apanhou; a avó, com paciência, disse que não fazia mal. "
    "Perché no? La città è più bella di notte, quando le luci dei caffè si riflettono nell'acqua.",
    # Polish, Czech, Turkish, Vietnamese, Icelandic
    "Żółta łódź płynęła powoli wzdłuż brzegu, a dzieci liczyły na głos: jeden, dwa, trzy, cztery. Źródło rzeki "
    "leży wysoko w górach. Příliš žluťoučký kůň dnes nikam nepůjde, protože prší a je zima.",
    "İstanbul'da ılık bir akşamüstü, iskeledeki balıkçı ağlarını topluyordu. Çocuklar gülüştü, şemsiyeler "
    "açıldı, İSTASYON ışıkları söndü. Sáng nay trời mưa nhẹ, bà ngoại nấu một nồi phở thật thơm cho cả nhà. "
    "Þorsteinn og Æsa sigldu út á fjörðinn á meðan sólin settist.",
    # Greek, Russian, Ukrainian, Georgian, Armenian
    "Η θάλασσα ήταν ήρεμη και ο ψαράς τραγουδούσε σιγά. Τι ώρα είναι; Είναι ώρα να γυρίσουμε σπίτι, Ὀδυσσεῦ.",
    "Старый трамвай медленно поднимался на холм, звеня на каждом повороте. «Следующая остановка, библиотека», "
    "объявил голос. Ёлки стояли в снегу, а в окнах горел тёплый свет. Їжак і ґава живуть біля річки.",
    "დილით მზე მთების უკან ამოვიდა. Առավոտյան շուկան լի էր մարդկանցով։",
    # Hebrew, Arabic, Persian, Urdu
    "בבוקר השוק היה מלא באנשים, וריח הלחם הטרי הגיע עד הרחוב הסמוך. שָׁלוֹם לְכֻלָּם, אמרה הסבתא.",
    "في الصباح الباكر خرج الصيّاد إلى البحر، وكان القمر لا يزال فوق التلال. قال: «مَنْ صَبَرَ ظَفَرَ». ٤٢ سمكة في السلة.",
    "کتاب‌خانه‌ی کوچک شهر هر روز ساعت نُه باز می‌شود و بچه‌ها در آن قصه می‌خوانند. ۱۲۳۴",
    # Devanagari, Bengali, Tamil, Thai, Lao, Tibetan, Khmer
    "सुबह की धूप खिड़की से अंदर आई और दादी ने चाय बनाई। क्या तुमने वह पुरानी किताब पढ़ी है? हाँ, मैंने २५ पन्ने पढ़े हैं।",
    "বৃষ্টির পরে আকাশে রামধনু উঠল, আর ছেলেমেয়েরা মাঠে দৌড়ে গেল। காலையில் கடற்கரை அமைதியாக இருந்தது; மீனவர்கள் வலைகளைச் சரிசெய்தார்கள்.",
    "เช้านี้ตลาดน้ำคึกคักมาก แม่ค้าขายมะม่วงสุกและข้าวเหนียวหอมๆ ให้นักท่องเที่ยว ๕๐ บาท",
    "ຕອນເຊົ້າ ແມ່ນ້ຳ ງຽບສະຫງົບ. བོད་ཀྱི་རི་མཐོན་པོ། ព្រឹកនេះ ផ្សារមានមនុស្សច្រើន។",
    # Chinese, Japanese, Korean
    "清晨的市场很热闹,卖豆腐的老人一边吆喝,一边把零钱放进木盒里。“今天的天气真好!”他说。一共二十三块五毛(23.50元)。",
    "朝の駅で、私は古い友だちに会いました。「久しぶりですね」と彼女は笑って、カバンから一冊のノートを取り出した。ガギグゲゴ、パピプ、ぷ・ぱ。",
    "아침 안개가 걷히자 강 건너 마을이 보이기 시작했다. 할머니는 김치를 담그고, 아이들은 마당에서 뛰놀았다. 값은 삼천 원입니다.",
    # code
    "static int compare(const void *a, const void *b)\n{\n    const struct row *x = a, *y = b;\n"
    "\tif (x->key != y->key)\n\t\treturn x->key < y->key ? -1 : 1;\n    return 0; /* equal: 0x7fff_ffff */\n}\n",
    "def merge(pairs, ranks):\n    while True:\n        best = min(pairs, key=lambda p: ranks.get(p, 1e9))\n"
    "        if best not in ranks:\n            break  # nothing left\n        pairs = apply(pairs, best)\n"
    "    return [f\"{a}{b}\" for a, b in pairs]\n\n\nif __name__ == '__main__':\n    print(merge([], {}))\n",
    "{\"name\": \"T1\", \"layers\": [0, 1, 2, 3], \"rope\": {\"theta\": 1e7, \"factor\": 0.25}, \"tied\": false, "
    "\"path\": \"C:\\\\temp\\\\x\"}\n<div class=\"row\">&nbsp;&lt;a href='#top'&gt;</div>\nSELECT id, n FROM t WHERE n >= 10;\n",
    # digits
    "3.14159265358979 2,718,281 1_000_000 0xDEADBEEF 1e-10 50% 12:34:56 2026-11-21 +49 (0)30 1234567890 ½ ² ₃ Ⅷ ⑦ 一二三 ٠١٢ ०१२",
    # emoji, symbols, mathematics
    "Ready? 🙂🙃 👍🏽 👩‍🚀 🇩🇪🇯🇵 ❤️ ☂ ★☆ → ∀x∈ℝ: x² ≥ 0 ∧ ∑ᵢ aᵢ ≈ π·√2 ≠ ∞ … ‘single’ “double” – — ©®™ €£¥ ½¼",
    # decomposed and precomposed, several marks, Hangul letters, compatibility forms
    "e\u0301te\u0301 \u00e9t\u00e9 a\u0308\u0301 \u01df u\u031b\u0323 \u1ef1 o\u0302\u0301 q\u0307\u0323 q\u0323\u0307 "
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \u212b \u2126 \u212a \ufb01 \uff21 \u0344 \u0958 \u0915\u093c \u0f43",
]

# one for each property that the steps of a tokenizer must preserve
CASES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", " \t \n", "a", " a", "a ", "  a", "a  ", "   a   ",
    "a\nb", "a \nb", "a\n b", "a \n b", "a  \n  b", "a\n\nb", "a \n\n b", "a\r\nb", "a\rb", "a\n\r\nb  \r\n\n c", "\n a", "\n  a",
    "x = 1;\n\n\n    y = 2;\n", "    if x:\n        y\n\n    z", "\t\tif\n\t\t\tx", "trailing   ", "trailing\n   ", "   \n   ",
    "it's", "IT'S", "it'S", "we'll", "we'LL", "we'Ll", "they've", "they'VE", "I'm", "I'M", "I'd", "I'D", "you're", "YOU'RE",
    "'s", "''s", " 's", "'sa", "a's'sb", "'", "''", "'x", "'\u017f", "it'\u017f", "'l", "'lx", "'r", "'v", "don't", "don\u2019t",
    "0", "12", "123", "1234", "12345678", " 1", " 12", "a1b2c3", "1a", "1.5", "-1", "1,000", "\u0661\u0662\u0663", "\u2167\u2168", "\u00bd\u00b2",
    "!", "!!", "!!!", " !", " !!", "!a", "a!", "...", " ...\n", "...\n\n", "?!\r\n", "(x)", "(\n", "*\n*\n", "-\n\n-", "$a", "\u20ac5", "#include",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|im_start|>user\nHello<|im_end|>\n",
    "<|im_start|>", "<|im_star|>", "<|im_start", "|im_start|>", "<|IM_START|>", "<|im_start|><|im_end|>", "<<|im_end|>>", "<think>\nso\n</think>\n\n",
    "\x00", "a\x00b", "\x01\x02\x03", "\x7f", "\x1b[31mred\x1b[0m", "\x0b", "\x0c", "a\x0bb\x0cc", "\x1c\x1d\x1e\x1f", "\x85", "a\x85b", " \x85 ",
    "\u00a0", "a\u00a0b", "\u00a0\u00a0a", "\u1680", "\u2000\u2001", "\u2009x", "\u2028", "a\u2028b", "\u2029", "\u202f", "\u205f", "\u3000", "\u3000\u3000a",
    "\u200b", "a\u200bb", "\u200c", "\u200d", "\ufeff", "a\ufeffb", "\u180e", "a\u180eb", " \u180e ", "\u180e\u180e", "\u00ad", "a\u00adb", "\u061c", "\u2060",
    "\u0301", " \u0301", "a\u0301", "a \u0301b", "\u0301\u0302\u0303", "e\u0301", "\u00e9", "E\u0301", "o\u0302\u0301", "o\u0301\u0302", "a\u0323\u0307", "a\u0307\u0323",
    "\u1ef1", "u\u031b\u0323", "u\u0323\u031b", "\u1100\u1161", "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01", "\u212b", "\u2126", "\u212a", "\u0344", "\u0958", "\u0915\u093c",
    "\u0f71\u0f72\u0f74", "\u0f73", "\u2adc", "\ufb1d", "\ufa0e", "\uf900", "\u0340", "\u0374", "\u037e", "\u0387", "\u1fef", "\u2000", "\u2329", "\U0001d15e",
    "\U0002f800", "\u09c7\u09be", "\u0b47\u0b56", "\u1025\u102e", "\u3046\u3099", "\u3051\u3099\u309a", "\u0cc6\u0cc2\u0cd5", "\u0dd9\u0dcf\u0dca",
    "\u00df", "\u1e9e", "\ufb00\ufb01\ufb05", "\u0130\u0131", "I\u0307", "\u01c4\u01c5\u01c6", "\u03a3\u03c3\u03c2", "\u10a0\u10d0", "\u13a0\uab70",
    "\u0915\u094d\u0937", "\u0ba8\u0bbf", "\u0e01\u0e33", "\u05e9\u05c1", "\u0645\u064e\u0646\u0652", "\u0627\u0653", "\u0622", "\u0e40\u0e02\u0e35", "\u094d", "1\u093e", "!\u093e",
    "\U0001f642", "\U0001f642\U0001f643", " \U0001f642", "a\U0001f642b", "\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd",
    "\u4f60\u597d", "\u4f60 \u597d", "a\u4f60b", "\u3042\u30a2", "\u30ac\u30ab\u3099", "\uff21\uff11", "\U00020000\U0002a6d6", "\uac12", "\u3131\u3165", "\u3002\u300c",
    "\u2166", "\u24b6", "\u00aa\u00ba", "\u02b0", "\u203f", "_", "a_b", "__init__", "\u0488", "a\u0488", "\u20dd", "\ue000", "\U000f0000", "\U0010fffd", "\ufffd",
    "aaaaaaaaaaaaaaaa", "abababababababab", "the the the", "thethethe", "  the", "THE the The tHe", "CamelCaseAndsnake_case", "a-b-c", "http://example.org/a?b=c&d=%20#e",
]

# a unit and its number of repetitions: reveals quadratic time
RUNS = [("a", 20000), ("ab", 10000), (" ", 20000), ("\n", 20000), (" \n", 10000), ("1", 5000), ("!", 20000), ("the", 9000),
        ("\u00e9", 9000), ("\u4f60", 6000), ("\u0301", 9000), ("e\u0301", 6000), ("\u0307\u0323", 5000), ("\U0001f642", 4000), ("<|im_end|>", 900), ("\x00", 3000), ("x ", 8000)]
