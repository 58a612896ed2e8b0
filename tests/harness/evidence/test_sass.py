"""Instructions are counted from a disassembly by kernel, with predicates and without; mnemonics tell shapes."""

from harness.evidence.sass import WarpGroupMma, read

TEXT = """\
	code for sm_90a
		Function : first
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                    /* 0x00000a00ff017b82 */
                                                                             /* 0x000fe20000000800 */
        /*0010*/              @!P0 UTMALDG.2D [UR8], [UR4] ;                 /* 0x0000000008007db4 */
        /*0020*/             @UP1 UTMALDG.2D.MULTICAST [UR8], [UR4], UR6 ;   /* 0x0000000008007db4 */
        /*0030*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0 ;  /* 0x0 */
        /*0040*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24 ;  /* 0x0 */
        /*0050*/                   HGMMA.64x96x16.F32.BF16 R24, R152, gdesc[UR4], R24 ;  /* 0x0 */
        /*0060*/                   UTMASTG.2D [UR8], [UR4] ;                 /* 0x0 */
        /*10000*/                  EXIT ;                                    /* 0x0 */
		Function : second
        /*0000*/                   LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64] ;  /* 0x0 */
        /*0010*/                   LDSM.16.MT88.4 R4, [R8] ;                 /* 0x0 */
        /*0020*/                   HMMA.16816.F32.BF16 R4, R4, R8, R4 ;      /* 0x0 */
        /*0030*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;  /* 0x0 */
        /*0040*/                   FFMA R1, R2, R3, R4 ;                     /* 0x0 */
"""


def test_each_kernel_has_its_own_counts() -> None:
    codes = read(TEXT)
    assert list(codes) == ["first", "second"]
    first, second = codes.values()
    assert first.tensor == {"HGMMA.64x256x16.F32.BF16": 2, "HGMMA.64x96x16.F32.BF16": 1}
    assert (first.count("UTMALDG", "UBLKCP"), first.count("UTMASTG"), first.instructions) == (2, 1, 8)
    assert second.tensor == {"HMMA.16816.F32.BF16": 1, "UTCHMMA": 1}
    assert [second.count(each) for each in ("LDGSTS", "LDSM", "UTMALDG")] == [1, 1, 0]


def test_a_wgmma_tells_its_shape_and_where_a_comes_from() -> None:
    first, second = read(TEXT).values()
    assert first.warp_group == {WarpGroupMma(64, 256, 16, False), WarpGroupMma(64, 96, 16, True)}
    assert second.warp_group == frozenset()


def test_a_text_without_functions_has_no_kernels() -> None:
    assert read("no code here") == {}
